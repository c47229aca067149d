//! The controllers of networking.k8s.io.

pub mod service_cidr;
