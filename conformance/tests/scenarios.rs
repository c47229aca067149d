//! Every scenario file is a test of its own, named `area/name`.

kubeproof::scenarios!("scenarios");
