package prefix_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"prefix.io/prefix"
)

var documents = []string{"Bread is baked.", "Paris is big.", "A tree."}

// newTask makes a task of the tiny model, which lives as long as the test.
func newTask(t *testing.T, kind string, options prefix.Options) *prefix.Task {
	t.Helper()
	engine, tokenizer := asciiModel(t)
	task := must(prefix.NewTask(engine, tokenizer, kind, options))(t)
	t.Cleanup(func() { task.Close() })
	return task
}

func TestPairsProductsAndTags(t *testing.T) {
	task := newTask(t, "rerank", nil)
	queries := []string{"Which city?", "What is baked?"}
	if _, err := task.Values(); !errors.Is(err, prefix.ErrMisuse) {
		t.Error(err)
	}
	task.SetTag(7)
	if first := must(task.AddProduct(queries, documents))(t); first != 0 {
		t.Error(first)
	}
	task.SetTag(8)
	pairs := [][2]string{{queries[1], documents[0]}, {queries[0], documents[2]}}
	if first := must(task.AddPairs(pairs...))(t); first != 6 {
		t.Error(first)
	}
	if first := must(task.Add(queries[1], documents[1]))(t); first != 8 {
		t.Error(first)
	}
	if _, err := task.Add("one text"); !errors.Is(err, prefix.ErrInvalidArgument) {
		t.Error(err)
	}
	if count, finished := must(task.Count())(t), must(task.FinishedCount())(t); count != 9 || finished != 0 {
		t.Error(count, finished)
	}
	tokens := must(task.ItemTokens(4))(t)
	check(t, task.Run(background))
	if result := must(task.Result(4))(t); result.PromptTokens != len(tokens) || !slices.Equal(must(task.ItemTokens(4))(t), tokens) {
		t.Errorf("%+v %d", result, tokens)
	}
	if finished := must(task.FinishedCount())(t); finished != 9 {
		t.Error(finished)
	}
	scores := must(task.Values())(t)
	if scores.Rows != 9 || scores.Columns != 1 {
		t.Fatal(scores)
	}
	// The same query and document have the same score, wherever they stand.
	for pair, product := range map[int]int{6: 3, 7: 2, 8: 4} {
		if scores.Flat[pair] != scores.Flat[product] {
			t.Error(pair, product, scores.Flat)
		}
	}
	for item := range 9 {
		result, tag := must(task.Result(item))(t), int64(7+item/6)
		if result.Err != nil || result.PromptTokens == 0 || result.Cut || result.Tag != tag {
			t.Errorf("%d: %+v", item, result)
		}
		if one := must(task.ItemValues(item))(t); len(one) != 1 || one[0] != scores.Row(item)[0] {
			t.Error(item, one)
		}
	}
	if !slices.Equal(must(task.Statuses())(t), make([]prefix.Status, 9)) {
		t.Error("not all are fine")
	}
	if item, err := task.FirstFailure(); item != 0 || err != nil {
		t.Error(item, err)
	}
	if totals := must(task.Totals())(t); totals.Requests != 9 || totals.TokensShared == 0 {
		t.Errorf("%+v: documents are computed once", totals)
	}
	ranking := must(task.Ranking(3, 3))(t)
	for i, ranked := range ranking {
		if ranked.Score != scores.Flat[3+ranked.Index] || i > 0 && ranked.Score > ranking[i-1].Score {
			t.Error(ranking)
		}
	}
	if len(ranking) != 3 {
		t.Error(ranking)
	}
	for _, wrong := range [][2]int{{7, 3}, {-1, 1}, {0, -1}, {0, math.MaxInt}} {
		if _, err := task.Ranking(wrong[0], wrong[1]); !errors.Is(err, prefix.ErrOutOfRange) {
			t.Error(wrong, err)
		}
	}
	if _, err := task.Result(9); !errors.Is(err, prefix.ErrOutOfRange) {
		t.Error(err)
	}
	if _, err := task.ItemTokens(9); !errors.Is(err, prefix.ErrOutOfRange) {
		t.Error(err)
	}
	if _, err := task.Add("late", "late"); !errors.Is(err, prefix.ErrMisuse) {
		t.Error(err)
	}
}

// A task's prompts are tokens: to warm them before it, to find all of them after it, and to keep them.
func TestRankedDocumentsAreFoundInTheCache(t *testing.T) {
	engine, tokenizer := asciiModel(t)
	ranking := func() *prefix.Task {
		task := must(prefix.NewTask(engine, tokenizer, "rerank", nil))(t)
		t.Cleanup(func() { task.Close() })
		must(task.AddProduct([]string{"Which tree?"}, manyDocuments(13)))(t)
		return task
	}
	warm := must(ranking().ItemTokens(5))(t)
	if found := must(engine.Lookup(0, warm))(t); found.CachedTokens != 0 {
		t.Error(found)
	}
	batch := must(engine.NewBatch())(t)
	defer batch.Close()
	must(batch.Add(prefix.Warm{Tokens: warm}))(t)
	must(engine.Run(background, batch))(t).Close()
	task := ranking()
	check(t, task.Run(background))
	prompts, lengths := make([][]prefix.Token, 13), make([]int, 13)
	for item := range prompts {
		prompts[item] = must(task.ItemTokens(item))(t)
		lengths[item] = len(prompts[item]) - 1 // the last one is only scored
	}
	lengths[5]++ // it was warmed
	if found := must(engine.LookupMany(0, prompts))(t); !slices.Equal(found, lengths) {
		t.Error(found, lengths)
	}
	if result := must(task.Result(5))(t); result.ComputedTokens > 12 {
		t.Errorf("more than the query, whose tokens are scored: %+v", result)
	}
	lease := must(engine.Pin(0, prompts[7], 0))(t)
	defer lease.Close()
	must(engine.Evict(0, nil))(t)
	if found := must(engine.LookupMany(0, prompts[7:9]))(t); found[0] != lengths[7] || found[1] >= lengths[8] {
		t.Error(found, lengths[7:9])
	}
}

func TestLabels(t *testing.T) {
	task := newTask(t, "classify", nil)
	must(task.Add(documents...))(t)
	if err := task.Submit(); !errors.Is(err, prefix.ErrInvalidArgument) {
		t.Error(err)
	}
	check(t, task.SetLabels("one"))
	check(t, task.SetLabels("food", "town", ""))
	if err := task.SetLabels("town", "\xff"); !errors.Is(err, prefix.ErrInvalidUTF8) {
		t.Error(err)
	}
	check(t, task.Run(background))
	classes := must(task.Values())(t)
	if classes.Rows != 3 || classes.Columns != 3 {
		t.Fatal(classes)
	}
	for row := range classes.Rows {
		if sum := classes.Row(row)[0] + classes.Row(row)[1] + classes.Row(row)[2]; math.Abs(float64(sum)-1) > 1e-4 {
			t.Error(row, sum)
		}
		ranking := must(task.Ranking(3*row, 3))(t)
		if len(ranking) != 3 || ranking[0].Score != slices.Max(classes.Row(row)) {
			t.Error(ranking)
		}
	}
}

var writing = prefix.Options{"max_tokens": 40, "ignore_eos": true, "stream": true}

func TestPiecesAddUpToTheText(t *testing.T) {
	task := newTask(t, "generate", writing)
	task.SetTag(5)
	must(task.Add(documents...))(t)
	check(t, task.Submit())
	texts, ended, pieces := make([]string, 3), 0, 0
	for event, err := range task.Events(background) {
		check(t, err)
		if event.Tag != 5 {
			t.Errorf("%+v", event)
		}
		switch event.Kind {
		case prefix.EventText:
			texts[event.Request] += event.Text
			pieces++
		case prefix.EventFinished:
			ended++
			if must(task.Text(event.Request))(t) != texts[event.Request] {
				t.Errorf("%q %q", must(task.Text(event.Request))(t), texts[event.Request])
			}
		default:
			t.Errorf("%+v", event)
		}
	}
	if ended != 3 || pieces < 3 {
		t.Error(ended, pieces)
	}
	for range task.Events(background) {
		t.Error("events come once")
	}
	if prefix.EventText.String() != "text" {
		t.Error(prefix.EventText)
	}
}

func TestStopTexts(t *testing.T) {
	engine, tokenizer := asciiModel(t)
	options := prefix.Options{"max_tokens": 40, "ignore_eos": true}
	whole, failures, err := prefix.Complete(background, engine, tokenizer, documents[:1], options)
	if err != nil || len(failures) != 0 || len(whole[0]) < 4 {
		t.Fatalf("%q %v %v", whole, failures, err)
	}
	runes := []rune(whole[0])
	stop := string(runes[2:4])
	options["stop"] = []string{"no such text", stop}
	ended, _, err := prefix.Complete(background, engine, tokenizer, documents[:1], options)
	before, _, _ := strings.Cut(whole[0], stop)
	if err != nil || ended[0] != strings.TrimSpace(before) {
		t.Errorf("%q %q %q %v", whole, stop, ended, err)
	}
	if value, err := options.Get("stop"); err != nil || !strings.HasPrefix(value, `["no such text"`) {
		t.Error(value, err)
	}
}

func manyDocuments(count int) []string {
	many := make([]string, count)
	for i := range many {
		many[i] = fmt.Sprintf("Document %d on trees.", i)
	}
	return many
}

func TestCancelKeepsWhatIsFinished(t *testing.T) {
	task := newTask(t, "rerank", prefix.Options{"chunk_tokens": 256})
	must(task.AddProduct([]string{"Trees?"}, manyDocuments(500)))(t)
	ctx, cancel := context.WithCancelCause(background)
	go func() {
		for ctx.Err() == nil { // before Submit there are no events
			for _, err := range task.Events(ctx) {
				if err == nil {
					cancel(errEnough)
				}
			}
		}
	}()
	if err := task.Run(ctx); !errors.Is(err, prefix.ErrCancelled) || !errors.Is(err, errEnough) {
		t.Fatal(err)
	}
	scores, ranking := must(task.Values())(t), must(task.Ranking(0, 500))(t)
	if len(ranking) == 0 || len(ranking) == 500 {
		t.Error(len(ranking))
	}
	for item, status := range must(task.Statuses())(t) {
		isRanked := slices.ContainsFunc(ranking, func(r prefix.Ranked) bool { return r.Index == item })
		if isThere := !math.IsNaN(float64(scores.Flat[item])); isThere != isRanked || isThere != (status == 0) {
			t.Error(item, status, isThere)
		}
		if status != 0 && status != prefix.ErrCancelled {
			t.Error(item, status)
		}
	}
	if item, err := task.FirstFailure(); !errors.Is(err, prefix.ErrCancelled) {
		t.Error(item, err)
	}
	check(t, task.Cancel())
}

var errEnough = errors.New("enough")

func TestAContextThatEndsAWaitLeavesTheTask(t *testing.T) {
	engine, tokenizer := asciiModel(t)
	task := must(prefix.NewTask(engine, tokenizer, "generate", prefix.Options{"max_tokens": 100, "ignore_eos": true}))(t)
	defer task.Close()
	must(task.Add(manyDocuments(100)...))(t)
	if err := task.Wait(background); !errors.Is(err, prefix.ErrMisuse) {
		t.Error(err)
	}
	check(t, task.Submit())
	if err := task.Submit(); !errors.Is(err, prefix.ErrMisuse) {
		t.Error(err)
	}
	over, cancel := context.WithCancel(background)
	cancel()
	if err := task.Wait(over); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, err := range task.Events(over) {
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	check(t, task.Cancel())
	check(t, task.Wait(background))
	// A context that is over before the task begins.
	none := must(prefix.NewTask(engine, tokenizer, "embed", nil))(t)
	defer none.Close()
	must(none.Add(documents...))(t)
	if err := none.Run(over); !errors.Is(err, prefix.ErrCancelled) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if statuses := must(none.Statuses())(t); statuses[0] != prefix.ErrCancelled {
		t.Error(statuses)
	}
}

func TestTextsThatWereBegunAreKept(t *testing.T) {
	task := newTask(t, "generate", prefix.Options{"max_tokens": 100, "ignore_eos": true, "stream": true})
	must(task.Add(manyDocuments(50)...))(t)
	check(t, task.Submit())
	pieces := make([]string, 50)
	for event, err := range task.Events(background) {
		check(t, err)
		pieces[event.Request] += event.Text
		if event.Kind == prefix.EventText {
			check(t, task.Cancel())
		}
	}
	begun := 0
	for item := range 50 {
		text, err := task.Text(item)
		partial := must(task.PartialText(item))(t)
		if err != nil && (!errors.Is(err, prefix.ErrCancelled) || text != "") || err == nil && text != partial {
			t.Error(item, text, err)
		}
		if partial != pieces[item] {
			t.Errorf("%d: %q %q", item, partial, pieces[item])
		}
		if err != nil && partial != "" {
			begun++
		}
	}
	if begun == 0 {
		t.Error("no text had begun")
	}
}

func TestNegativePlacesAreNamed(t *testing.T) {
	task := newTask(t, "rerank", nil)
	must(task.Add("a query", "a document"))(t)
	check(t, task.Run(background))
	_, result := task.Result(-1)
	_, values := task.ItemValues(-1)
	_, tokens := task.ItemTokens(-1)
	_, text := task.PartialText(-1)
	_, first := task.Ranking(-1, 1)
	_, count := task.Ranking(0, -1)
	for err, what := range map[error]string{result: "item", values: "item", tokens: "item", text: "item", first: "first", count: "count"} {
		if !errors.Is(err, prefix.ErrOutOfRange) || !strings.Contains(err.Error(), what+" is -1; at least 0") {
			t.Error(what, err)
		}
	}
}

func TestDeadlineOfATask(t *testing.T) {
	options := prefix.Options{"max_tokens": 200, "ignore_eos": true, "deadline_ms": 1}
	task := newTask(t, "generate", options)
	must(task.Add(manyDocuments(300)...))(t)
	check(t, task.Run(background))
	if item, err := task.FirstFailure(); !errors.Is(err, prefix.ErrDeadline) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(item, err)
	}
}

func TestACutPromptIsTold(t *testing.T) {
	task := newTask(t, "embed", prefix.Options{"max_prompt_tokens": 20})
	must(task.Add("short", strings.Repeat("long ", 100), "\xff"))(t)
	check(t, task.Run(background))
	for item, want := range []bool{false, true} {
		if result := must(task.Result(item))(t); result.Err != nil || result.Cut != want {
			t.Errorf("%d: %+v", item, result)
		}
	}
	if item, err := task.FirstFailure(); item != 2 || !errors.Is(err, prefix.ErrInvalidUTF8) {
		t.Error(item, err)
	}
}

// However many tasks are awaited, one thread waits inside the library.
func TestManyTasks(t *testing.T) {
	engine, tokenizer := asciiModel(t)
	before := threads(t)
	var group sync.WaitGroup
	for i := range 200 {
		task := must(prefix.NewTask(engine, tokenizer, "generate", writing))(t)
		t.Cleanup(func() { task.Close() })
		must(task.Add(documents[i%3]))(t)
		check(t, task.Submit())
		group.Add(1)
		go func() {
			defer group.Done()
			var err error
			if i%2 == 0 {
				err = task.Wait(background)
			} else {
				for _, err = range task.Events(background) {
				}
			}
			if finished, other := task.FinishedCount(); err != nil || other != nil || finished != 1 {
				t.Error(finished, err, other)
			}
		}()
	}
	if now := threads(t); now > before+20 {
		t.Errorf("%d threads, %d before", now, before)
	}
	group.Wait()
}

func TestOptionsOfTasks(t *testing.T) {
	engine, tokenizer := asciiModel(t)
	for _, wrong := range []struct {
		kind    string
		options prefix.Options
		want    error
	}{
		{"embed", prefix.Options{"topn": 1}, prefix.ErrUnknownOption},
		{"embed", prefix.Options{"max_tokens": 1}, prefix.ErrInvalidArgument},
		{"embed", prefix.Options{"stream": true}, prefix.ErrInvalidArgument},
		{"rerank", prefix.Options{"stop": []string{"."}}, prefix.ErrInvalidArgument},
		{"embed", prefix.Options{"threads": 1}, prefix.ErrInvalidArgument},
		{"embed", prefix.Options{"recipe": "none"}, prefix.ErrNotFound},
		{"ranking", nil, prefix.ErrInvalidArgument},
	} {
		if _, err := prefix.NewTask(engine, tokenizer, wrong.kind, wrong.options); !errors.Is(err, wrong.want) {
			t.Errorf("%s %v: %v", wrong.kind, wrong.options, err)
		}
	}
	if _, err := prefix.NewTask(engine, tokenizer, "embed", prefix.Options{"recipe": make(chan int)}); err == nil {
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

func TestAClosedTask(t *testing.T) {
	task := newTask(t, "generate", prefix.Options{"max_tokens": 200, "ignore_eos": true, "stream": true})
	must(task.Add(manyDocuments(100)...))(t)
	check(t, task.Submit())
	done := make(chan error)
	go func() { done <- task.Wait(background) }()
	go func() {
		var last error
		for _, last = range task.Events(background) {
		}
		done <- last
	}()
	for _, err := range task.Events(background) { // it has begun
		check(t, err)
		break
	}
	check(t, task.Close()) // ends the waits
	for range 2 {
		if err := <-done; err != nil && !errors.Is(err, prefix.ErrMisuse) {
			t.Error(err)
		}
	}
	_, values := task.Values()
	_, add := task.Add("x")
	_, count := task.Count()
	for i, err := range []error{values, add, count, task.Submit(), task.Run(background), task.Cancel(), task.SetLabels("x")} {
		if !errors.Is(err, prefix.ErrClosed) {
			t.Error(i, err)
		}
	}
	check(t, task.Close())
}

func TestTextsAreOfASchemaAnExpressionOrAGrammar(t *testing.T) {
	engine, tokenizer := asciiModel(t)
	write := func(options prefix.Options) ([]string, error) {
		texts, _, err := prefix.Complete(background, engine, tokenizer, []string{"one"}, options.MaxTokens(8))
		for i, text := range texts {
			texts[i] = strings.TrimRight(text, "\x02") // ends texts of the model, and is a character for the tokenizer
		}
		return texts, err
	}
	if text := must(write(prefix.Options{}.Regex("[ab]{4}")))(t)[0]; len(text) != 4 || strings.Trim(text, "ab") != "" {
		t.Error(text)
	}
	if text := must(write(prefix.Options{}.Grammar(`start: "yes"`)))(t)[0]; text != "yes" {
		t.Error(text)
	}
	if text := must(write(prefix.Options{}.JSONSchema(`{"enum": ["only"]}`)))(t)[0]; text != `"only"` {
		t.Error(text)
	}
	_, err := write(prefix.Options{}.JSONSchema(`{"type": "thing"}`))
	is(t, err, prefix.ErrInvalidArgument)
}

func TestTheTokensOfATextHaveLogProbs(t *testing.T) {
	engine, _ := asciiModel(t)
	for _, likely := range []int{0, 2} {
		options := prefix.Options{}.MaxTokens(100).IgnoreEOS(true).Logprobs(true).TopLogprobs(likely)
		task := newTask(t, "generate", options.Stream(true))
		must(task.Add("one"))(t)
		check(t, task.Submit())
		var streamed []prefix.TextToken
		for event, err := range task.Events(background) {
			check(t, err)
			streamed = append(streamed, must(task.Logprobs(event.Request, len(streamed)))(t)...)
		}
		tokens := must(task.Logprobs(0, 0))(t)
		if len(tokens) != 100 || !reflect.DeepEqual(streamed, tokens) {
			t.Error(tokens, streamed)
		}
		batch := must(engine.NewBatch())(t)
		must(batch.Add(prefix.Generate{Tokens: must(task.ItemTokens(0))(t), Options: options}))(t)
		job := must(engine.Run(background, batch))(t)
		ids, logprobs, top := must(job.Tokens(0))(t), must(job.Logprobs(0))(t), must(job.Top(0))(t)
		for i, token := range tokens {
			same := token.Token == ids[i] && token.Logprob == logprobs[i] && token.Offset >= 0 && len(token.Top) == likely
			if !same || likely > 0 && !slices.Equal(token.Top, top[i]) {
				t.Error(i, token, ids[i], logprobs[i])
			}
		}
		if rest := must(task.Logprobs(0, 97))(t); !reflect.DeepEqual(rest, tokens[97:]) {
			t.Error(rest)
		}
		for _, first := range []int{101, -1} {
			_, err := task.Logprobs(0, first)
			is(t, err, prefix.ErrOutOfRange)
		}
	}
}
