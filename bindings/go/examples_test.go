package prefix_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// examplePrograms builds those of examples/ and gives their folder.
func examplePrograms(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	build := []string{"build", "-o", folder + "/"}
	if raceDetector {
		build = append(build, "-race") // as this test is, so that the bindings are compiled once
	}
	if output, err := exec.Command("go", append(build, "./examples/...")...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return folder
}

// The programs do what they say; the second turn of a chat finds the first one in the cache.
func TestExamplePrograms(t *testing.T) {
	folder := examplePrograms(t)
	model := must(filepath.Abs("../../build/models/SmolLM2-135M-Instruct.Q4_1.gguf"))(t)
	readme := string(must(os.ReadFile("README.md"))(t))
	expected := map[string]string{
		"chat":   `flour(.|\n)*\n\[0 of \d+ tokens were in the cache\]\n(.|\n)*\n\[[1-9]\d* of \d+ tokens were in the cache\]\n$`,
		"embed":  `^ 0\.\d{3}  The cat sleeps\.  A kitten is asleep\.\n`,
		"qa":     `^Q  Where was Ada Lovelace born\?\nA  .*London(.|\n)*\n\d+ tokens were given, and \d+ of them computed\n$`,
		"rerank": `^ *-\d\.\d{3}  Paris is the capital of France\.\n`,
	}
	for _, entry := range must(os.ReadDir("examples"))(t) {
		name := entry.Name()
		if !strings.Contains(readme, "(examples/"+name+"/main.go)") {
			t.Errorf("README.md does not name %s", name)
		}
		program := exec.Command(filepath.Join(folder, name), model)
		program.Stdin = strings.NewReader("What is bread made of?\nAnd cake?\n")
		output, err := program.CombinedOutput()
		if err != nil || expected[name] == "" || !regexp.MustCompile(expected[name]).Match(output) {
			t.Errorf("%s: %v\n%s", name, err, output)
		}
	}
}

// Started wrongly they say what to do, or what is wrong, in one line.
func TestExampleProgramsSayWhatIsWrong(t *testing.T) {
	folder := examplePrograms(t)
	for _, entry := range must(os.ReadDir("examples"))(t) {
		for expected, arguments := range map[string][]string{
			"usage: " + entry.Name() + " MODEL": nil,
			"/no model":                         {"/no model"},
		} {
			output, err := exec.Command(filepath.Join(folder, entry.Name()), arguments...).CombinedOutput()
			var failed *exec.ExitError
			said := string(output)
			if !errors.As(err, &failed) || failed.ExitCode() != 1 || !strings.Contains(said, expected) ||
				strings.Count(said, "\n") != 1 {
				t.Errorf("%s %q: %v\n%s", entry.Name(), arguments, err, said)
			}
		}
	}
}
