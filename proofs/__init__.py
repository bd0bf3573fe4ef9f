"""The trusted core. Imports only `tang_verified.semantics`, the standard library, islpy and the solvers."""
