package kubeproof

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// programVariable names the program, before every other place.
const programVariable = "KUBEPROOF_BINARY"

// FindProgram returns the path of the program kubeproof: the one that the environment variable KUBEPROOF_BINARY names,
// the first on the PATH, or bin/kubeproof in the directory kubeproof of the user's cache (os.UserCacheDir).
func FindProgram() (string, error) {
	if named := os.Getenv(programVariable); named != "" {
		if !isProgram(named) {
			return "", fmt.Errorf("%s=%s is not a program", programVariable, named)
		}
		return named, nil
	}
	if path, err := exec.LookPath("kubeproof"); err == nil {
		return path, nil
	}
	cache, err := os.UserCacheDir()
	if err == nil {
		path := filepath.Join(cache, "kubeproof", "bin", "kubeproof")
		if isProgram(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("the program kubeproof is neither on the PATH nor in the user's cache; install it, or set %s",
		programVariable)
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
