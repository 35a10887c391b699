package prefix_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"prefix.io/prefix"
)

// lines are the rests of those that begin with a word.
func lines(part, word string) (rests []string) {
	for line := range strings.Lines(part) {
		if rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), word+" "); ok {
			rests = append(rests, rest)
		}
	}
	return rests
}

// settings are options as text, which the library reads.
func settings(lines []string) prefix.Options {
	options := prefix.Options{}
	for _, line := range lines {
		key, value, _ := strings.Cut(line, "=")
		options[key] = value
	}
	return options
}

// TestGoldenTexts reads bindings/golden_texts.txt, whose lines bindings/make_golden explains.
func TestGoldenTexts(t *testing.T) {
	parts := strings.Split(string(must(os.ReadFile("../golden_texts.txt"))(t)), "\ntask ")
	path := filepath.Join(models, lines(parts[0], "model")[0])
	engine := must(prefix.Open(background, path, settings(lines(parts[0], "engine"))))(t)
	defer engine.Close()
	tokenizer := must(prefix.OpenTokenizer(path))(t)
	defer tokenizer.Close()
	if len(parts) < 6 {
		t.Fatal(len(parts))
	}
	for _, part := range parts[1:] {
		kind, _, _ := strings.Cut(part, "\n")
		same := func(what string, got any) {
			t.Helper()
			if wanted := strings.Join(lines(part, what), "\n"); strings.Trim(fmt.Sprint(got), "[]") != wanted {
				t.Errorf("%s of %s: %v instead of %s", what, kind, got, wanted)
			}
		}
		task := must(prefix.NewTask(engine, tokenizer, kind, settings(lines(part, "option"))))(t)
		defer task.Close()
		if labels := lines(part, "label"); labels != nil {
			check(t, task.SetLabels(labels...))
		}
		must(task.Add(lines(part, "text")...))(t)
		same("tokens", must(task.ItemTokens(0))(t))
		check(t, task.Run(background))
		var statuses []int32
		for _, status := range must(task.Statuses())(t) {
			statuses = append(statuses, int32(status))
		}
		same("statuses", statuses)
		var bits []string
		for _, value := range bitsOf(must(task.Values())(t).Flat) {
			bits = append(bits, fmt.Sprintf("%08x", value))
		}
		same("bits", bits)
		wanted, written := lines(part, "written"), []string(nil)
		for item := range wanted {
			written = append(written, must(task.Text(item))(t))
		}
		if !slices.Equal(written, wanted) || (len(written) == 0) == (len(bits) == 0) {
			t.Errorf("%s: %q instead of %q", kind, written, wanted)
		}
	}
}
