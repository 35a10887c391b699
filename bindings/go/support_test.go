package prefix_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"prefix.io/prefix"
)

// generations is a batch that keeps an engine busy for a while.
func generations(t testing.TB, engine *prefix.Engine, count int) *prefix.Batch {
	t.Helper()
	batch := must(engine.NewBatch())(t)
	t.Cleanup(func() { batch.Close() })
	options := prefix.Options{"max_tokens": 200, "ignore_eos": true}
	for i := range count {
		prompt := []prefix.Token{1, 2 + int32(i%100), 3 + int32(i/100), 4}
		must(batch.Add(prefix.Generate{Tokens: prompt, Options: options, Tag: int64(i)}))(t)
	}
	return batch
}

// byteTokenizer has a token for each of the first bytes, and then <|start|> and <|end|>.
func byteTokenizer(bytes int) (tokenizer, config string) {
	vocabulary := map[string]int{}
	next := 256
	for b := range 256 {
		plain := b >= 33 && b <= 126 || b >= 161 && b <= 172 || b >= 174
		code := b
		if !plain {
			code = next
			next++
		}
		if b < bytes {
			vocabulary[string(rune(code))] = b
		}
	}
	special := func(id int, name string) map[string]any {
		return map[string]any{"id": id, "content": name, "single_word": false, "lstrip": false, "rstrip": false,
			"normalized": false, "special": true}
	}
	level := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false}
	first, _ := json.Marshal(map[string]any{
		"version": "1.0", "normalizer": nil, "pre_tokenizer": level, "decoder": level, "post_processor": nil,
		"added_tokens": []any{special(bytes, "<|start|>"), special(bytes+1, "<|end|>")},
		"model":        map[string]any{"type": "BPE", "vocab": vocabulary, "merges": []any{}},
	})
	// Two templates; the first reads all that one can be told.
	long := "{% for t in tools or [] %}[{{ t.name }}]{% endfor %}{% for d in documents or [] %}({{ d.text }}){% endfor %}" +
		"{% if dated %}{{ strftime_now('%Y-%m-%d') }} {% endif %}" +
		"{% for m in messages %}<|start|>{{ m.role }}: {{ m.content }}<|end|>{% endfor %}" +
		"{% if add_generation_prompt %}<|start|>assistant: {% if enable_thinking %}<think>{% endif %}{% endif %}"
	second, _ := json.Marshal(map[string]any{
		"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>",
		"chat_template": []any{
			map[string]any{"name": "default", "template": long},
			map[string]any{"name": "short", "template": "{{ messages[-1].content }}"},
		},
	})
	return string(first), string(second)
}

// asciiModel opens a tiny model that reads ASCII.
func asciiModel(t testing.TB) (*prefix.Engine, *prefix.Tokenizer) {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"config.json", "model.safetensors"} {
		content := must(os.ReadFile(filepath.Join(models, "llama-base", name)))(t)
		check(t, os.WriteFile(filepath.Join(folder, name), content, 0o600))
	}
	tokenizer, config := byteTokenizer(129) // with two special ones, all of the model's
	check(t, os.WriteFile(filepath.Join(folder, "tokenizer.json"), []byte(tokenizer), 0o600))
	check(t, os.WriteFile(filepath.Join(folder, "tokenizer_config.json"), []byte(config), 0o600))
	engine := must(prefix.Open(context.Background(), folder, prefix.Options{"isa": "scalar", "dtype": "f32"}))(t)
	t.Cleanup(func() { engine.Close() })
	opened := must(prefix.OpenTokenizer(folder))(t)
	t.Cleanup(func() { opened.Close() })
	return engine, opened
}

// collect collects garbage until something has come of it.
func collect[T any](t testing.TB, done <-chan T) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		runtime.GC()
		select {
		case <-done:
			return
		case <-time.After(time.Millisecond):
		}
	}
	t.Fatal("it was not collected")
}

// resident is how much memory the process has.
func resident(t testing.TB) int64 {
	t.Helper()
	fields := strings.Fields(string(must(os.ReadFile("/proc/self/statm"))(t)))
	return must(strconv.ParseInt(fields[1], 10, 64))(t) * int64(os.Getpagesize())
}
