#!/usr/bin/env bash
# Builds kubectl from its published Go modules, for machines that can't download the binary:
#     tools/install_kubectl.sh /usr/local/bin
set -euo pipefail
version=0.32.4
target=$(realpath "${1:?the folder to put kubectl in}")
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cd "$work"
cat > main.go <<'GO'
package main

import (
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
GO
go mod init makeway.dev/kubectl
go get "k8s.io/kubectl@v$version" "k8s.io/component-base@v$version"
go mod tidy
go build -trimpath -o "$target/kubectl" \
    -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=v1${version#0} \
              -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=32" .
"$target/kubectl" version --client
