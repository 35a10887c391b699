package swig

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const include = "../../../../include"

func headers(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	for _, name := range []string{"prefix.h", "prefix_text.h"} {
		content, err := os.ReadFile(filepath.Join(include, name))
		if err != nil {
			t.Fatal(err)
		}
		text.Write(content)
	}
	return text.String()
}

// The constants are those that a C compiler sees.
func TestConstants(t *testing.T) {
	names := regexp.MustCompile(`(?:(?m:^)#define )?(PREFIX_\w+)(?: =)?\s+-?\d`).FindAllStringSubmatch(headers(t), -1)
	if len(names) < 50 {
		t.Fatalf("%d constants in the headers", len(names))
	}
	program := "#include <stdio.h>\n#include <prefix_text.h>\nint main(void) {\n"
	for _, name := range names {
		program += fmt.Sprintf("  printf(\"%s %%lld\\n\", (long long)%s);\n", name[1], name[1])
	}
	folder := t.TempDir()
	source, binary := filepath.Join(folder, "constants.c"), filepath.Join(folder, "constants")
	if err := os.WriteFile(source, []byte(program+"  return 0;\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if output, err := exec.Command("cc", "-I", include, "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("%s", output)
	}
	output, err := exec.Command(binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(string(output)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		number, _ := strconv.ParseInt(value, 10, 64)
		if mine, ok := Constants[name]; !ok || mine != number {
			t.Errorf("%s is %d in C and %d here", name, number, mine)
		}
		seen++
	}
	if seen != len(Constants) {
		t.Errorf("C has %d constants, Go has %d", seen, len(Constants))
	}
}

// Every function of the headers is here, but for those that take callbacks.
func TestFunctions(t *testing.T) {
	code, err := os.ReadFile("native.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, match := range regexp.MustCompile(`X\(\s*(prefix_\w+)\s*\)`).FindAllStringSubmatch(headers(t), -1) {
		name := match[1]
		switch name {
		case "prefix_set_log_callback", "prefix_source_add_reader", "prefix_constraint_create":
			continue
		}
		found++
		if !strings.Contains(string(code), "\nfunc P"+name[1:]+"(") {
			t.Errorf("%s is missing", name)
		}
	}
	if found < 100 {
		t.Errorf("%d functions in the lists of the headers", found)
	}
}

// A list of texts for which C has no memory is a status, and the next call goes well.
func TestNoMemoryForTexts(t *testing.T) {
	var options uintptr
	if status := Prefix_options_create(&options, nil); status != PREFIX_OK {
		t.Fatal(status)
	}
	defer Prefix_options_release(options)
	table := func(begin, end uint64, text string) []byte {
		packed := binary.NativeEndian.AppendUint64(nil, begin)
		return append(binary.NativeEndian.AppendUint64(packed, end), text...)
	}
	if status := Prefix_options_set_texts(options, "stop", table(1<<50, 0, ""), nil); status != PREFIX_ERR_OUT_OF_MEMORY {
		t.Error(status)
	}
	for _, texts := range [][]byte{nil, table(16, 19, "abc")} {
		if status := Prefix_options_set_texts(options, "stop", texts, nil); status != PREFIX_OK {
			t.Error(status)
		}
	}
	value := make([]byte, 64)
	if status := Prefix_options_get(options, "stop", value, nil, nil); status != PREFIX_OK || text(value) != `["abc"]` {
		t.Error(status, text(value))
	}
}

// The generated code is what the headers say.
func TestGeneratedCodeIsFresh(t *testing.T) {
	output, err := exec.Command("../../../swig/generate", "--check").CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 77 {
		t.Skipf("%s", output)
	}
	if err != nil {
		t.Fatalf("%s", output)
	}
}
