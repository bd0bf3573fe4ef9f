"""The command line. Commands print and exit; everything else returns values or raises.

Nothing heavy is imported before a command runs, so that `--help` answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tang_verified import __version__

if TYPE_CHECKING:
    from tang_verified.proofs.certificate import CertificateData

EXITS = """\b
Exit codes of audit:
  0  everything was proved again
  1  something is disproved, or a text, digest, chain or record does not match
  2  the call itself is wrong
  3  something is unproved or missing
  4  a file that is no certificate"""
COLOURS = {
    "proved": "green", "ok": "green", "disproved": "red", "mismatch": "red", "unreadable": "red", "weaker": "red",
    "unproved": "yellow", "missing": "yellow", "error": "yellow", "absent": "yellow", "removed": "yellow",
    "step": "bold", "kernel": "bold", "program": "bold", "axioms": "bold", "conventions": "bold",
}  # fmt: skip


@click.group(epilog=EXITS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tang-verified")
def main() -> None:
    """Compile tensor programs with certificates, and check certificates.

    \b
    tang-verified demo                      the main job, end to end, in under a minute
    tang-verified compile examples/attention.py:causal --out kernels
    tang-verified audit kernels/            prove again every certificate in a folder
    tang-verified explain attn.cert.json    read the derivation, step by step
    tang-verified doctor                    what this machine has, and how to get the rest
    """


@main.command()
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path("tang_demo"), show_default=True,
              help="Where the kernel and its certificate are written.")  # fmt: skip
@click.pass_context
def demo(context: click.Context, out: Path) -> None:
    """Attention as a textbook writes it, derived, proved, run, compared, audited; then an unsound kernel refused.

    \b
    tang-verified demo
    tang-verified demo --out /tmp/attention
    """
    from rich.console import Console

    from tang_verified.demo import run

    context.exit(0 if run(out, Console()) else 1)


@main.command("compile")
@click.argument("target", metavar="FILE.py:FUNCTION")
@click.option("--backend", default="c", show_default=True, help="Comma-separated targets.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path("kernels"), show_default=True)
@click.option("--spec", "specs", multiple=True, metavar="'NAME=SHAPE [DTYPE]'",
              help="An argument's shape; wins over annotations.")  # fmt: skip
@click.option("--name", help="Name of the files; the function's name by default.")
@click.option("--empty", type=click.Choice(["nan", "zero"]), default="nan", show_default=True,
              help="What a row without any element gives: NumPy's nan, or zero.")  # fmt: skip
@click.option("--quiet", is_flag=True, help="Print the paths only.")
def compile_(target: str, backend: str, out: Path, specs: tuple[str, ...], name: str | None, empty: Any, quiet: bool) -> None:
    """Compile a function to sources and a certificate. The file is run to load the function.

    Specs come from annotations (q: tv.spec("n d")) or from --spec. Exit codes: 0, 1 (refused), 2 (bad call).

    \b
    tang-verified compile examples/attention.py:causal --out kernels
    tang-verified compile model.py:scores --spec 'q=n 64 float16' --spec 'k=m 64 float16'
    """
    from rich.console import Console

    from tang_verified.compiler import compile
    from tang_verified.errors import CompileError, TangError, TraceError
    from tang_verified.loading import load_function, read_specs

    console = Console(stderr=True, highlight=False)
    try:
        function = load_function(target)
        given = read_specs(specs)
    except TangError as problem:
        raise click.UsageError(str(problem)) from None
    backends = list(dict.fromkeys(backend.split(",")))
    for one in backends:
        try:
            with console.status(f"{target}: tracing, rewriting, proving, printing for {one} …"):
                kernel = compile(function, backend=one, name=name, empty=empty, **given)
        except (CompileError, TraceError) as problem:
            click.echo(f"refused: {problem}", err=True)
            sys.exit(1)
        except (TangError, ValueError) as problem:
            raise click.UsageError(str(problem)) from None
        for path in kernel.save(out, beside=len(backends) > 1):
            click.echo(str(path))
        if not quiet:
            spent = ", ".join(f"{stage} {seconds:.2f} s" for stage, seconds in kernel.timings.stages.items())
            proved = len(kernel.certified.obligations)
            click.echo(f"{len(kernel.certified.kernels)} kernel(s), {proved} obligations proved; {spent}")
            for note in kernel.notes:
                if note.startswith("schedule"):  # a slower form was taken
                    click.echo(f"note: {note}", err=True)
            left = sum(not note.startswith("schedule") for note in kernel.notes)
            if left:
                click.echo(f"{left} simplifications could not be proved and were left out (kernel.notes has them)", err=True)


@main.command(epilog=EXITS)
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--solver", type=click.Choice(["z3", "cvc5", "both"]), default="z3", show_default=True,
              help="Who refutes the statements: isl and Z3; cvc5 alone, from the SMT-LIB text; or both.")  # fmt: skip
@click.option("--format", "form", type=click.Choice(["text", "json", "junit", "sarif"]), default="text", show_default=True)
@click.option("--trusted-base", is_flag=True, help="Print what must be believed: files, lines, axioms, provers.")
@click.pass_context
def audit(context: click.Context, paths: tuple[Path, ...], solver: Any, form: str, trusted_base: bool) -> None:
    """Prove again everything that certificates claim, from the files alone.

    A folder stands for every *.cert.json in it; a printed source in it that none of them names is a finding. The sources are
    looked for beside each certificate.

    \b
    tang-verified audit attn.cert.json
    tang-verified audit --solver both --format sarif kernels/ > audit.sarif
    tang-verified audit --trusted-base
    """
    if trusted_base:
        from tang_verified.trusted_base import describe

        click.echo(describe())
        if not paths:
            return
    elif not paths:
        raise click.UsageError("name a certificate, or a folder of them")
    from tang_verified.auditing import audited, certificates
    from tang_verified.report import exit_code, render

    files = certificates(paths)
    if not files:
        raise click.UsageError(f"no *.cert.json in {', '.join(map(str, paths))}")
    reports = audited(paths, solver)
    say(render(reports, form), colour=form == "text")
    context.exit(exit_code(reports))


@main.command()
@click.argument("cert", type=click.Path(path_type=Path))
@click.option("--width", type=click.IntRange(40, 100_000), default=160, show_default=True, help="Longer terms are elided.")
def explain(cert: Path, width: int) -> None:
    """Print a derivation in readable notation: each step, what was proved, the kernels and their invariants.

    It shows what the file says; `audit` checks it. Exit codes: 0, 2 (cannot be read), 4 (no certificate).

    \b
    tang-verified explain attn.cert.json
    tang-verified explain attn.cert.json --width 1000
    """
    from tang_verified.explain import explain as explanation

    say(explanation(_load(cert), width))


@main.command()
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option("--verbose", is_flag=True, help="List every difference, not only the first ten of each kind.")
@click.pass_context
def diff(context: click.Context, old: Path, new: Path, verbose: bool) -> None:
    """Say what differs between two certificates: obligations, steps, kernels, axioms, bounds.

    Exit codes: 0 nothing is weaker, 1 something is weaker in NEW, 2 cannot be read, 4 no certificate.

    \b
    tang-verified diff release/attn.cert.json kernels/attn.cert.json
    """
    from tang_verified.compare import compare, report

    before, after = _load(old), _load(new)
    say(report(before, after, None if verbose else 10))
    context.exit(1 if any(d.kind == "weaker" for d in compare(before, after)) else 0)


@main.command()
@click.argument("cert", type=click.Path(path_type=Path))
def assumptions(cert: Path) -> None:
    """Print what a kernel rests on and its certificate does not prove: axioms, theorems, conventions, provers, compilers.

    Exit codes: 0, 2 (cannot be read), 4 (no certificate).

    \b
    tang-verified assumptions attn.cert.json
    """
    from tang_verified.assumptions import assumptions as listing

    say(listing(_load(cert)))


@main.command()
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="The device file; in the cache by default.")
@click.option("--quick", is_flag=True, help="A few seconds; the ceilings come out a little lower.")
@click.option("--anew", is_flag=True, help="Forget what the file there says: by default no ceiling falls.")
@click.option("--backend", type=click.Choice(["c", "cuda"]), default="c", show_default=True)
def ceilings(out: Path | None, quick: bool, anew: bool, backend: str) -> None:
    """Measure what this machine can do at most: bandwidths, rates, the cost of a call. Floors are made of these.

    On a busy machine it takes longer. A second run keeps the higher of both: run it twice rather than once for long.

    \b
    tang-verified ceilings
    tang-verified ceilings --quick --out here.json
    """
    from rich.console import Console
    from rich.progress import Progress

    from tang_verified.ceilings import Effort, default_path, described, measure
    from tang_verified.device_file import DeviceError, better, read, write

    path = out or default_path(backend)
    try:
        with Progress(console=Console(stderr=True)) as progress:
            task = progress.add_task("", total=1.0)

            def said(text: str, part: float) -> None:
                progress.update(task, description=text, completed=part)

            if backend == "cuda":
                from tang_verified.ceilings_cuda import measure as measure_cuda

                device = measure_cuda(said)
            else:
                device = measure(Effort.quick() if quick else Effort(), said)
            said("done", 1.0)
        if path.exists() and not anew:
            device = better(read(path), device)
        write(device, path)
    except DeviceError as problem:
        raise click.UsageError(str(problem)) from None
    except OSError as problem:
        raise click.UsageError(f"{path} cannot be written: {problem.strerror or problem}") from None
    say("\n".join(described(device)))
    click.echo(str(path))


@main.command("report")
@click.argument("path", type=click.Path(path_type=Path, exists=True), metavar="DIR|BENCH.json")
@click.option("--format", "form", type=click.Choice(["html", "md", "latex", "json"]), default="md", show_default=True)
@click.option("--device", help="Floors on another device: a device file, or a name. Needs the certificates beside the rows.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the report here.")
def report_(path: Path, form: Any, device: str | None, out: Path | None) -> None:
    """Kernels beside their floors, the gap's parts, and for each the bound with its certificate, to be cited.

    DIR holds certificates and files of measured rows (benchmarks/floors.py --json writes one).

    \b
    tang-verified report floors.json --format html --out report.html
    tang-verified report kernels/ --format latex
    tang-verified report floors.json --device nvidia-h200-described
    """
    from tang_verified.benching import BenchError
    from tang_verified.device_file import DeviceError, find
    from tang_verified.performance_report import gather, render
    from tang_verified.semantics.serial import BadData

    try:
        text = render(gather(path, find(device) if device else None), form)
    except (BenchError, DeviceError) as problem:
        raise click.UsageError(str(problem)) from None
    except BadData as problem:
        click.echo(f"{path}: a certificate there is unreadable: {problem}", err=True)
        sys.exit(4)
    if out is None:
        click.echo(text, nl=False)
    else:
        out.write_text(text)
        click.echo(str(out))


@main.command()
@click.argument("cert", type=click.Path(path_type=Path))
@click.option("--size", "sizes", multiple=True, metavar="NAME=NUMBER", help="A size of the program; all are needed.")
@click.option("--capacity", default="32KiB", show_default=True, help="Bytes of the fast memory: 32768, 32KiB, 1MiB.")
@click.option("--processors", type=click.IntRange(1), default=1, show_default=True, help="Fast memories, one a processor.")
@click.option("--resident", is_flag=True, help="Operands may lie in fast memory at the start.")
@click.option("--device", help="A device file or name: the floor there, too.")
def bound(cert: Path, sizes: tuple[str, ...], capacity: str, processors: int, resident: bool, device: str | None) -> None:
    """Bytes that every execution of a certificate's kernels moves, at given sizes, with the theorem and a tile.

    Each number is checked anew from the file. Exit codes: 0, 2 (bad call), 4 (no certificate).

    \b
    tang-verified bound attn.cert.json --size h=8 --size n=4096 --size m=4096 --capacity 1MiB
    tang-verified bound matmul.cert.json --size n=2048 --size k=2048 --size m=2048 --processors 2 --device c-2
    """
    from tang_verified.bounding import BoundError, bounds

    certificate = _load(cert)
    from tang_verified.device_file import DeviceError, find

    try:
        where = find(device) if device else None
        say("\n".join(bounds(certificate, sizes, capacity, processors, resident, where)))
    except (BoundError, DeviceError) as problem:
        raise click.UsageError(str(problem)) from None


@main.command()
@click.argument("target", metavar="FILE.py:FUNCTION")
@click.option("--size", "sizes", multiple=True, metavar="NAME=NUMBER", help="A size to search at; all are needed.")
@click.option("--spec", "specs", multiple=True, metavar="'NAME=SHAPE [DTYPE]'", help="An argument's shape.")
@click.option("--candidates", type=click.IntRange(1), default=24, show_default=True, help="Schedules to try, in all.")
@click.option("--seconds", type=click.FloatRange(0, min_open=True), default=0.4, show_default=True, help="Timing of each.")
@click.option("--tolerance", type=click.FloatRange(0), default=1e-5, show_default=True,
              help="The error allowed, over the largest value.")  # fmt: skip
def lab(target: str, sizes: tuple[str, ...], specs: tuple[str, ...], candidates: int, seconds: float, tolerance: float) -> None:
    """Search for a faster schedule around the best tile of the traffic bound. Every candidate is proved, or rejected.

    Stopped at any time, it goes on from its log. compile(..., schedule="lab") then uses what was found.

    \b
    tang-verified lab examples/linear_gelu.py:linear_gelu --size n=1024 --size k=1024 --size m=1024
    tang-verified lab model.py:scores --spec 'q=n 64' --spec 'k=m 64' --size n=512 --size m=512 --candidates 40
    """
    from rich.console import Console
    from rich.progress import Progress

    from tang_verified.bounding import BoundError, sizes_of
    from tang_verified.errors import CompileError, TangError, TraceError
    from tang_verified.lab import Limits, log_path, search
    from tang_verified.loading import load_function, read_specs
    from tang_verified.tracing.tracer import trace_and_reasons

    try:
        function, given = load_function(target), read_specs(specs)
        program, _ = trace_and_reasons(function, given)
        chosen = sizes_of(program, sizes)
        with Progress(console=Console(stderr=True)) as progress:
            task = progress.add_task("", total=candidates)

            def said(text: str, done: int, of: int) -> None:
                progress.update(task, description=text[:100], completed=done, total=of)

            trials = search(function, given, chosen, Limits(candidates, seconds, tolerance), said)
    except (CompileError, TraceError) as problem:
        click.echo(f"refused: {problem}", err=True)
        sys.exit(1)
    except (BoundError, TangError, ValueError) as problem:
        raise click.UsageError(str(problem)) from None
    for trial in trials:
        time = "        " if trial.seconds is None else f"{trial.seconds * 1e3:8.3f}"
        error = "       " if trial.error is None else f"{trial.error:.1e}"
        say(f"{trial.verdict:8} {time} ms  error {error}  {trial.schedule or 'default'}: {trial.why.splitlines()[0][:120]}")
    click.echo(str(log_path(program)))


@main.command()
@click.pass_context
def doctor(context: click.Context) -> None:
    """Say what this machine has, one line each, and the command that would supply what is missing.

    Exit codes: 0 all that is needed is there, 1 something is missing.

    \b
    tang-verified doctor
    """
    from tang_verified.doctor import diagnose

    lines, whole = diagnose()
    say("\n".join(lines))
    context.exit(0 if whole else 1)


def _load(path: Path) -> CertificateData:
    from tang_verified.auditing import load
    from tang_verified.proofs.certificate import read
    from tang_verified.semantics.serial import BadData

    try:
        return read(load(path))
    except OSError as problem:
        raise click.UsageError(f"{path} cannot be read: {problem.strerror or problem}") from None
    except BadData as problem:
        click.echo(f"{path}: unreadable: {problem}", err=True)
        sys.exit(4)


def say(text: str, *, colour: bool = True) -> None:
    """Print a text; on a terminal, its lines are wrapped at its width and coloured by their first word."""
    from rich.console import Console
    from rich.text import Text

    from tang_verified.lines import wrapped

    console = Console(highlight=False, soft_wrap=True)
    if not (colour and console.is_terminal):
        click.echo(text)
        return
    for line in text.splitlines():
        console.print(Text(wrapped(line, console.width), style=_style(line)))


def _style(line: str) -> str:
    words: Callable[[str], list[str]] = lambda part: part.replace(":", " ").split()  # noqa: E731
    return next((COLOURS[word] for word in words(line)[:2] if word in COLOURS), "")


if __name__ == "__main__":
    main()
