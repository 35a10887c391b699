package prefix_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"prefix.io/prefix"
)

var documents = []string{"Bread is baked.", "Paris is big.", "A tree."}

func TestRerank(t *testing.T) {
	engine, tokenizer := asciiModel(t)
	queries := []string{"Which city?", "What is baked?"}
	task := must(prefix.NewRerank(engine, tokenizer, queries, documents, nil))(t)
	defer task.Close()
	if _, err := task.Values(); !errors.Is(err, prefix.ErrMisuse) {
		t.Error(err)
	}
	check(t, task.Run(background))
	if done, total, err := task.Progress(); done != 6 || total != 6 || err != nil {
		t.Error(done, total, err)
	}
	scores := must(task.Values())(t)
	if scores.Rows != 2 || scores.Columns != 3 {
		t.Error(scores)
	}
	for row := range 2 {
		order := must(task.Order(row))(t)
		values := scores.Row(row)
		if len(order) != 3 || values[order[0]] < values[order[1]] || values[order[1]] < values[order[2]] {
			t.Error(order, values)
		}
	}
	if _, err := task.Order(2); !errors.Is(err, prefix.ErrOutOfRange) {
		t.Error(err)
	}
	if !slices.Equal(must(task.Statuses())(t), make([]prefix.Status, 6)) {
		t.Error("not all are fine")
	}
	if result := must(task.Result(5))(t); result.Err != nil || result.PromptTokens == 0 {
		t.Errorf("%+v", result)
	}
	if totals := must(task.Totals())(t); totals.TokensShared == 0 {
		t.Errorf("%+v: documents are computed once", totals)
	}
	ranking := must(prefix.Rerank(background, engine, tokenizer, queries[1], documents, nil))(t)
	for i, document := range must(task.Order(1))(t) {
		if ranking[i].Document != document || ranking[i].Score != scores.Row(1)[document] {
			t.Error(ranking)
		}
	}
}

func TestEmbedAnswerClassify(t *testing.T) {
	engine, tokenizer := asciiModel(t)
	vectors := must(prefix.Embed(background, engine, tokenizer, documents, prefix.TaskOptions{"dimensions": 8}))(t)
	if vectors.Rows != 3 || vectors.Columns != 8 {
		t.Error(vectors)
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
	short := prefix.TaskOptions{"request": map[string]any{"max_tokens": 5}}
	answers, err := prefix.Answer(background, engine, tokenizer, documents[0], []string{"What is baked?", "Where?"}, short)
	if len(answers) != 2 || err != nil {
		t.Errorf("%q %v", answers, err)
	}
	classes := must(prefix.Classify(background, engine, tokenizer, documents, []string{"food", "town"}, nil))(t)
	for row := range classes.Rows {
		if sum := classes.Row(row)[0] + classes.Row(row)[1]; math.Abs(float64(sum)-1) > 1e-4 {
			t.Error(row, sum)
		}
	}
	if none := must(prefix.Embed(background, engine, tokenizer, nil, nil))(t); none.Rows != 0 || len(none.Flat) != 0 {
		t.Error(none)
	}
}

func TestAFailedItemIsNamed(t *testing.T) {
	engine, tokenizer := asciiModel(t)
	mixed := []string{documents[0], strings.Repeat("long ", 100), documents[2]}
	ranking, err := prefix.Rerank(background, engine, tokenizer, "Trees?", mixed, prefix.TaskOptions{"truncate": "off"})
	if len(ranking) != 2 || !errors.Is(err, prefix.ErrPromptTooLong) || !strings.Contains(err.Error(), "item 1") {
		t.Error(ranking, err)
	}
	vectors, err := prefix.Embed(background, engine, tokenizer, mixed, prefix.TaskOptions{"truncate": "off"})
	if vectors.Rows != 3 || !math.IsNaN(float64(vectors.Row(1)[0])) || !errors.Is(err, prefix.ErrPromptTooLong) {
		t.Error(vectors, err)
	}
}

func manyDocuments(prefix string, count int) []string {
	many := make([]string, count)
	for i := range many {
		many[i] = fmt.Sprintf("%s %d on trees.", prefix, i)
	}
	return many
}

func TestACancelledTask(t *testing.T) {
	engine, tokenizer := asciiModel(t)
	task := must(prefix.NewRerank(engine, tokenizer, []string{"Trees?"}, manyDocuments("Document", 2000), nil))(t)
	defer task.Close()
	if done, err := task.RunFor(time.Millisecond); done || err != nil {
		t.Error(done, err)
	}
	time.AfterFunc(10*time.Millisecond, func() { task.Cancel() })
	check(t, task.Run(background))
	if statuses := must(task.Statuses())(t); statuses[1999] != prefix.ErrCancelled {
		t.Error(statuses[1999])
	}
	if _, err := task.Text(1999); !errors.Is(err, prefix.ErrCancelled) {
		t.Error(err)
	}
	if done, err := task.RunFor(0); !done || err != nil {
		t.Error(done, err)
	}
}

var errEnough = errors.New("enough")

// endsWhenSomeAreDone is a context that ends when the engine has finished its first requests.
func endsWhenSomeAreDone(engine *prefix.Engine) context.Context {
	ctx, cancel := context.WithCancelCause(background)
	go func() {
		for {
			if stats, err := engine.Stats(); err != nil || stats.RequestsFinished > 0 {
				cancel(errEnough)
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	return ctx
}

func TestCancelTheContextOfATask(t *testing.T) {
	engine, tokenizer := asciiModel(t)
	many := manyDocuments("Document", 2000)
	task := must(prefix.NewRerank(engine, tokenizer, []string{"Trees?"}, many, nil))(t)
	defer task.Close()
	err := task.Run(endsWhenSomeAreDone(engine))
	if !errors.Is(err, prefix.ErrCancelled) || !errors.Is(err, errEnough) {
		t.Fatal(err)
	}
	// Nothing goes on, and what was done is there.
	scores, order := must(task.Values())(t), must(task.Order(0))(t)
	if len(order) == 0 || len(order) == len(many) {
		t.Error(len(order))
	}
	for document, status := range must(task.Statuses())(t) {
		isThere := !math.IsNaN(float64(scores.Flat[document]))
		if isThere != slices.Contains(order, document) || isThere != (status == 0) {
			t.Error(document, status, isThere)
		}
		if status != 0 && status != prefix.ErrCancelled {
			t.Error(document, status)
		}
	}
	if stats := must(engine.Stats())(t); stats.RequestsRunning+stats.RequestsWaiting != 0 {
		t.Errorf("%+v", stats)
	}
	// A context that is over before the task begins.
	over, cancel := context.WithCancel(background)
	cancel()
	none := must(prefix.NewEmbed(engine, tokenizer, documents, nil))(t)
	defer none.Close()
	if err := none.Run(over); !errors.Is(err, prefix.ErrCancelled) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestWhatIsDoneWhenTheContextEndsIsReturned(t *testing.T) {
	engine, tokenizer := asciiModel(t)
	many := manyDocuments("Document", 2000)
	ranking, err := prefix.Rerank(endsWhenSomeAreDone(engine), engine, tokenizer, "Trees?", many, nil)
	if !errors.Is(err, prefix.ErrCancelled) || !errors.Is(err, errEnough) || strings.Contains(err.Error(), "item") {
		t.Error(err)
	}
	if len(ranking) == 0 || len(ranking) == len(many) {
		t.Error(len(ranking))
	}
}

func TestAnAnswerThatWasCancelledIsKeptSoFar(t *testing.T) {
	engine, tokenizer := asciiModel(t)
	long := prefix.TaskOptions{"request": map[string]any{"max_tokens": 100, "ignore_eos": true}}
	questions := make([]string, 300)
	for i := range questions {
		questions[i] = fmt.Sprintf("What is %d?", i)
	}
	task := must(prefix.NewAnswer(engine, tokenizer, documents[0], questions, long))(t)
	defer task.Close()
	ctx, cancel := context.WithCancel(background)
	go func() {
		for {
			if stats, err := engine.Stats(); err != nil || stats.Steps >= 5 {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if err := task.Run(ctx); !errors.Is(err, prefix.ErrCancelled) {
		t.Fatal(err)
	}
	begun := 0
	for item := range questions {
		text, err := task.Text(item)
		result := must(task.Result(item))(t)
		if result.Err == nil {
			continue
		}
		if !errors.Is(err, prefix.ErrCancelled) || text != "" && result.GeneratedTokens == 0 {
			t.Fatal(item, text, err)
		}
		if text != "" {
			begun++
		}
	}
	if begun == 0 {
		t.Error("no answer had begun")
	}
}

func TestTaskOptions(t *testing.T) {
	engine, tokenizer := asciiModel(t)
	for _, wrong := range []struct {
		options prefix.TaskOptions
		want    error
	}{
		{prefix.TaskOptions{"topn": 1}, prefix.ErrUnknownOption},
		{prefix.TaskOptions{"recipe": "none"}, prefix.ErrNotFound},
	} {
		if _, err := prefix.NewEmbed(engine, tokenizer, documents, wrong.options); !errors.Is(err, wrong.want) {
			t.Errorf("%v: %v", wrong.options, err)
		}
	}
	if _, err := prefix.NewEmbed(engine, tokenizer, documents, prefix.TaskOptions{"recipe": make(chan int)}); err == nil {
		t.Error("a channel is no value")
	}
	names := prefix.Recipes()
	if !slices.Contains(names, "query-likelihood") || !strings.Contains(must(prefix.RecipeJSON(names[0]))(t), names[0]) {
		t.Error(names)
	}
	if _, err := prefix.RecipeJSON("none"); !errors.Is(err, prefix.ErrNotFound) {
		t.Error(err)
	}
}
