//! The flags of the programs that kubeproof stands in for: kube-apiserver and etcd.

pub(crate) mod kube_apiserver;
#[cfg(test)]
mod tests;
