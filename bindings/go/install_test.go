package prefix_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"prefix.io/prefix"
)

// The README shows the examples as they are.
func TestReadme(t *testing.T) {
	readme := string(must(os.ReadFile("README.md"))(t))
	examples := string(must(os.ReadFile("example_test.go"))(t))
	for _, name := range []string{"Example", "ExampleRerank", "ExampleTask_Events", "ExampleJob_Events", "ExampleEngine_Pin"} {
		body := regexp.MustCompile(`(?s)func ` + name + `\(\) \{\n(.*?)\t// Output`).FindStringSubmatch(examples)[1]
		body = strings.ReplaceAll(strings.TrimPrefix(body, "\t"), "\n\t", "\n")
		if !strings.Contains(readme, "```go\n"+body+"```") {
			t.Errorf("%s:\n%s", name, body)
		}
	}
}

// A module of a stranger finds an installed library by pkg-config.
func TestInstalledLibrary(t *testing.T) {
	for _, name := range []string{"cmake", "pkg-config"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed", name)
		}
	}
	build := must(filepath.Abs("../../build"))(t)
	// Always the same place, so that Go can reuse what it has compiled.
	place := filepath.Join(build, "go-install")
	run := func(folder string, environment []string, command ...string) string {
		t.Helper()
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir = folder
		for _, setting := range os.Environ() {
			if !strings.HasPrefix(setting, "GOFLAGS=") && !strings.HasPrefix(setting, "CGO_") {
				cmd.Env = append(cmd.Env, setting)
			}
		}
		cmd.Env = append(cmd.Env, environment...)
		output, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command[0], err, output)
		}
		return string(output)
	}
	run(".", nil, "cmake", "--install", build, "--prefix", place)
	found := must(filepath.Glob(filepath.Join(place, "lib*", "pkgconfig", "prefix_text.pc")))(t)
	found = append(found, must(filepath.Glob(filepath.Join(place, "lib", "*", "pkgconfig", "prefix_text.pc")))(t)...)
	if len(found) != 1 {
		t.Fatal("no prefix_text.pc: ", found)
	}
	pkgconfig := filepath.Dir(found[0])
	folder := t.TempDir()
	module := "module example.com/stranger\n\ngo 1.24\n\nrequire prefix.io/prefix v0.0.0\n\nreplace prefix.io/prefix => " +
		must(filepath.Abs("."))(t) + "\n"
	program := "package main\n\nimport (\n\t\"fmt\"\n\n\t\"prefix.io/prefix\"\n)\n\nfunc main() { fmt.Println(prefix.Version()) }\n"
	check(t, os.WriteFile(filepath.Join(folder, "go.mod"), []byte(module), 0o600))
	check(t, os.WriteFile(filepath.Join(folder, "main.go"), []byte(program), 0o600))
	output := run(folder, []string{
		"PKG_CONFIG_PATH=" + pkgconfig, "LD_LIBRARY_PATH=" + filepath.Dir(pkgconfig),
		// Go's cache does not know that pkg-config may answer differently, but it knows this flag.
		"CGO_CFLAGS=-g -O2 -ffile-prefix-map=" + place + "=installed",
	}, "go", "run", ".")
	if strings.TrimSpace(output) != prefix.Version() {
		t.Error(output)
	}
}
