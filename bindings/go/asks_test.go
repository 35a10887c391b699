package prefix_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"prefix.io/prefix"
)

func TestTasksInOneCall(t *testing.T) {
	engine, tokenizer := asciiModel(t)
	ranking, failures, err := prefix.Rerank(background, engine, tokenizer, "What is baked?", documents, nil)
	if err != nil || len(failures) != 0 || len(ranking) != 3 || ranking[0].Score < ranking[2].Score {
		t.Error(ranking, failures, err)
	}
	best, _, err := prefix.Rerank(background, engine, tokenizer, "What is baked?", documents, prefix.Options{"top_n": 1})
	if err != nil || len(best) != 1 || best[0] != ranking[0] {
		t.Error(best, err)
	}
	vectors, _, err := prefix.Embed(background, engine, tokenizer, documents, prefix.Options{"dimensions": 8})
	if err != nil || vectors.Rows != 3 || vectors.Columns != 8 {
		t.Error(vectors, err)
	}
	for row := range vectors.Rows {
		var norm float64
		for _, x := range vectors.Row(row) {
			norm += float64(x) * float64(x)
		}
		if math.Abs(norm-1) > 1e-3 {
			t.Error(row, norm)
		}
	}
	classes, _, err := prefix.Classify(background, engine, tokenizer, documents, []string{"food", "town"}, nil)
	if err != nil || classes.Rows != 3 || classes.Columns != 2 {
		t.Error(classes, err)
	}
	few := prefix.Options{"max_tokens": 5, "ignore_eos": true}
	answers, _, err := prefix.Answer(background, engine, tokenizer, documents[0], []string{"What is baked?", "Where?"}, few)
	if err != nil || len(answers) != 2 || answers[0] == "" {
		t.Errorf("%q %v", answers, err)
	}
	several, _, err := prefix.Answer(background, engine, tokenizer, documents[0], []string{"What is baked?", "Where?"}, few.Samples(2))
	if want := []string{answers[0], answers[0], answers[1], answers[1]}; err != nil || !slices.Equal(several, want) {
		t.Errorf("%q, want %q %v", several, want, err)
	}
	message, err := prefix.Chat(background, engine, tokenizer, []prefix.Message{{Role: "user", Content: "Hello"}}, prefix.ChatOptions{}, few)
	if err != nil || message == "" {
		t.Errorf("%q %v", message, err)
	}
	greetings := [][]prefix.Message{{{Role: "user", Content: "Hello"}}, {{Role: "user", Content: "Bye"}}}
	messages, _, err := prefix.Chats(background, engine, tokenizer, greetings, prefix.ChatOptions{}, few.Samples(2))
	if err != nil || len(messages) != 4 || messages[0] != message || messages[1] != message || messages[2] != messages[3] {
		t.Errorf("%q, the first two %q %v", messages, message, err)
	}
	message, err = prefix.Chat(background, engine, tokenizer, greetings[0], prefix.ChatOptions{}, few.Samples(2))
	if !errors.Is(err, prefix.ErrInvalidArgument) || message != "" ||
		!strings.Contains(err.Error(), "option samples is 2; Chat gives one text, Chats gives all") {
		t.Errorf("%q %v", message, err)
	}
	none, failures, err := prefix.Embed(background, engine, tokenizer, nil, nil)
	if err != nil || len(failures) != 0 || none.Rows != 0 || len(none.Flat) != 0 {
		t.Error(none, failures, err)
	}
}

// told has one conversation for each thing that a template can be told, and what the one of the tests makes of it.
func told() (options []prefix.ChatOptions, texts []string) {
	const turn, next = "<|start|>user: Hi<|end|>", "<|start|>assistant: "
	for _, pair := range []struct {
		options prefix.ChatOptions
		text    string
	}{
		{prefix.ChatOptions{}, turn + next},
		{prefix.ChatOptions{NoGenerationPrompt: true}, turn},
		{prefix.ChatOptions{ContinueFinalMessage: true}, "<|start|>user: Hi"},
		{prefix.ChatOptions{Tools: []any{map[string]any{"name": "go"}, map[string]any{"name": "stop"}}}, "[go][stop]" + turn + next},
		{prefix.ChatOptions{Documents: []any{map[string]any{"text": "d"}}}, "(d)" + turn + next},
		{prefix.ChatOptions{Variables: map[string]any{"enable_thinking": true}}, turn + next + "<think>"},
		{prefix.ChatOptions{
			Variables: map[string]any{"dated": true}, Now: time.Date(2026, 1, 31, 23, 59, 59, 0, time.UTC),
		}, "2026-01-31 " + turn + next},
		{prefix.ChatOptions{Template: "short"}, "Hi"},
	} {
		options, texts = append(options, pair.options), append(texts, pair.text)
	}
	return options, texts
}

func TestTemplatesAreToldWhatTheOptionsSay(t *testing.T) {
	engine, tokenizer := asciiModel(t)
	few := prefix.Options{"max_tokens": 8, "ignore_eos": true}
	messages := []prefix.Message{{Role: "user", Content: "Hi"}}
	task := must(prefix.NewTask(engine, tokenizer, "chat", few))(t)
	defer task.Close()
	options, texts := told()
	for i, chat := range options {
		if text := must(tokenizer.ChatText(messages, chat))(t); text != texts[i] {
			t.Errorf("%q, not %q", text, texts[i])
		}
		if item := must(task.AddChat(messages, chat))(t); item != i {
			t.Error(item, i)
		}
		if text := must(tokenizer.Decode(must(task.ItemTokens(i))(t), 0))(t); text != texts[i] {
			t.Errorf("%q, not %q", text, texts[i])
		}
	}
	check(t, task.Run(background))
	answers := make([]string, len(options))
	for i, chat := range options {
		answers[i] = must(prefix.Chat(background, engine, tokenizer, messages, chat, few))(t)
		if text := must(task.Text(i))(t); text != answers[i] {
			t.Errorf("%d: %q, not %q", i, answers[i], text)
		}
	}
	if answers[0] == answers[5] {
		t.Error("what thinks says something else", answers[0])
	}
}

func TestATemplateOptionThatIsWrongIsNamed(t *testing.T) {
	engine, tokenizer := asciiModel(t)
	messages := []prefix.Message{{Role: "user", Content: "Hi"}}
	for _, wrong := range []struct {
		options prefix.ChatOptions
		named   string
	}{
		{prefix.ChatOptions{Template: "none"}, `"none"`},
		{prefix.ChatOptions{Tools: []any{"go"}}, "tools[0]"},
		{prefix.ChatOptions{Documents: []any{1}}, "documents[0]"},
		{prefix.ChatOptions{Variables: map[string]any{"tools": 1}}, "not one of variables"},
		{prefix.ChatOptions{Variables: map[string]any{"x": make(chan int)}}, "chan int"},
	} {
		_, err := prefix.Chat(background, engine, tokenizer, messages, wrong.options, nil)
		if err == nil || !strings.Contains(err.Error(), wrong.named) {
			t.Errorf("%s: %v", wrong.named, err)
		}
		_, err = tokenizer.ChatText(messages, wrong.options)
		if err == nil || !strings.Contains(err.Error(), wrong.named) {
			t.Errorf("%s: %v", wrong.named, err)
		}
	}
}

func TestResultsComeWithTheirFailures(t *testing.T) {
	engine, tokenizer := asciiModel(t)
	long := strings.Repeat("long ", 100)
	mixed := []string{documents[0], long, documents[2]}
	off := prefix.Options{"truncate": "off"}
	ranking, failures, err := prefix.Rerank(background, engine, tokenizer, "Trees?", mixed, off)
	if err != nil || len(ranking) != 2 || len(failures) != 1 || failures[0].Item != 1 ||
		!errors.Is(failures.Err(), prefix.ErrPromptTooLong) || !strings.HasPrefix(failures.Err().Error(), "item 1: ") {
		t.Error(ranking, failures, err)
	}
	vectors, failures, err := prefix.Embed(background, engine, tokenizer, mixed, off)
	if err != nil || vectors.Rows != 3 || !math.IsNaN(float64(vectors.Row(1)[0])) || len(failures) != 1 {
		t.Error(vectors, failures, err)
	}
	// It is an error when nothing succeeded.
	_, failures, err = prefix.Embed(background, engine, tokenizer, []string{long, long}, off)
	if !errors.Is(err, prefix.ErrPromptTooLong) || len(failures) != 2 {
		t.Error(failures, err)
	}
	if failures[:0].Err() != nil {
		t.Error("no failures")
	}
	_, err = prefix.Chat(background, engine, tokenizer, []prefix.Message{{Role: "user", Content: long}}, prefix.ChatOptions{}, nil)
	if !errors.Is(err, prefix.ErrPromptTooLong) {
		t.Error(err)
	}
	if _, err = prefix.Chat(background, engine, tokenizer, nil, prefix.ChatOptions{}, nil); err == nil {
		t.Error("no messages")
	}
	if _, _, err := prefix.Rerank(background, engine, tokenizer, "", documents, prefix.Options{"a": 1}); err == nil {
		t.Error("no such option")
	}
}

func TestWhatIsDoneWhenTheContextEndsIsReturned(t *testing.T) {
	engine, tokenizer := asciiModel(t)
	ctx, cancel := context.WithCancelCause(background)
	job := make(chan struct{})
	go func() {
		defer close(job)
		for ctx.Err() == nil {
			if stats, err := engine.Stats(); err != nil || stats.RequestsFinished > 0 {
				cancel(errEnough)
			}
		}
	}()
	many := manyDocuments(2000)
	ranking, failures, err := prefix.Rerank(ctx, engine, tokenizer, "Trees?", many, prefix.Options{"chunk_tokens": 256})
	<-job
	if err != nil || len(ranking) == 0 || len(ranking)+len(failures) != len(many) || len(failures) == 0 {
		t.Fatal(len(ranking), len(failures), err)
	}
	for _, failure := range failures {
		if !errors.Is(failure.Err, prefix.ErrCancelled) || !errors.Is(failure.Err, errEnough) {
			t.Fatal(failure)
		}
	}
	// One that is over before the work begins.
	_, failures, err = prefix.Rerank(ctx, engine, tokenizer, "Trees?", documents, nil)
	if len(failures) != 3 || !errors.Is(err, prefix.ErrCancelled) || !errors.Is(err, errEnough) {
		t.Error(failures, err)
	}
}
