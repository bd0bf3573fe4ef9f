"""What programs mean: terms, monoids, programs, kernels. No rewriting happens here."""
