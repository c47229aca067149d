module github.com/kubeproof/kubeproof/packaging/go

go 1.24
