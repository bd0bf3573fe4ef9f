"""From a tile program of one worker to one of a block of threads. Untrusted: the checker proves the result anew."""
