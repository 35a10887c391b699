package prefix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"prefix.io/prefix/internal/swig"
)

// TaskOptions are settings of a task by name: recipe, instruction, truncate, max_prompt_tokens, raw, top_n, prompt,
// dimensions, normalize, chunk_tokens, and request with options of the engine's requests. prefix_text.h describes
// them.
type TaskOptions map[string]any

// Task turns texts into scores, vectors or answers. It works in [Task.Run] and has its results afterwards. The
// functions [Rerank], [Embed], [Answer] and [Classify] do all of that at once.
type Task struct {
	handle
	running sync.Mutex // the library takes one caller of Run at a time
}

func newTask(
	engine *Engine, tokenizer *Tokenizer, options TaskOptions,
	create func(engine, tokenizer uintptr, options string, raw *uintptr, f *swig.Error) int32,
) (*Task, error) {
	var settings []byte
	if len(options) > 0 {
		var err error
		if settings, err = json.Marshal(options); err != nil {
			return nil, fmt.Errorf("prefix: task options: %w", err)
		}
	}
	e, err := engine.ptr()
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(engine)
	t, err := tokenizer.ptr()
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(tokenizer)
	var raw uintptr
	if err := call(func(f *swig.Error) int32 { return create(e, t, string(settings), &raw, f) }); err != nil {
		return nil, err
	}
	task := &Task{}
	task.own(raw, "task", swig.Prefix_task_release)
	return task, nil
}

// NewRerank will score every document for every query; higher is better. Rows are queries, columns documents.
func NewRerank(engine *Engine, tokenizer *Tokenizer, queries, documents []string, options TaskOptions) (*Task, error) {
	q, queryEnds := joinTexts(queries)
	d, documentEnds := joinTexts(documents)
	return newTask(engine, tokenizer, options, func(e, t uintptr, o string, raw *uintptr, f *swig.Error) int32 {
		return swig.Prefix_rerank(e, t, q, queryEnds, d, documentEnds, o, raw, f)
	})
}

// NewEmbed will make a vector of each text. Rows are texts, columns dimensions.
func NewEmbed(engine *Engine, tokenizer *Tokenizer, texts []string, options TaskOptions) (*Task, error) {
	text, ends := joinTexts(texts)
	return newTask(engine, tokenizer, options, func(e, t uintptr, o string, raw *uintptr, f *swig.Error) int32 {
		return swig.Prefix_embed(e, t, text, ends, o, raw, f)
	})
}

// NewAnswer will answer many questions about one context, which is computed once. Rows are questions; see [Task.Text].
func NewAnswer(
	engine *Engine, tokenizer *Tokenizer, text string, questions []string, options TaskOptions,
) (*Task, error) {
	q, ends := joinTexts(questions)
	return newTask(engine, tokenizer, options, func(e, t uintptr, o string, raw *uintptr, f *swig.Error) int32 {
		return swig.Prefix_answer(e, t, text, q, ends, o, raw, f)
	})
}

// NewClassify will give the probability of each label for each text. Rows are texts, columns labels.
func NewClassify(engine *Engine, tokenizer *Tokenizer, texts, labels []string, options TaskOptions) (*Task, error) {
	text, textEnds := joinTexts(texts)
	label, labelEnds := joinTexts(labels)
	return newTask(engine, tokenizer, options, func(e, t uintptr, o string, raw *uintptr, f *swig.Error) int32 {
		return swig.Prefix_classify(e, t, text, textEnds, label, labelEnds, o, raw, f)
	})
}

// Run works until every item has its result. When ctx ends first, it ends the items that have none, as Cancel does, and
// returns [ErrCancelled] with the cause; what had its result by then keeps it. [Task.RunFor] stops and lets a later
// call go on.
func (t *Task) Run(ctx context.Context) error {
	t.running.Lock()
	defer t.running.Unlock()
	err := t.work(ctx)
	if _, failed := err.(*Error); err == nil || failed || ctx.Err() == nil {
		return err
	}
	if err := t.Cancel(); err != nil {
		return err
	}
	if err := t.work(context.Background()); err != nil { // soon over
		return err
	}
	return cancelled(ctx)
}

// RunFor works for some time and says whether every item has its result. The next call goes on.
func (t *Task) RunFor(time time.Duration) (done bool, err error) {
	t.running.Lock()
	defer t.running.Unlock()
	ctx, stop := context.WithTimeout(context.Background(), time)
	defer stop()
	err = t.work(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return false, nil
	}
	return err == nil, err
}

// work runs the task until it is done or ctx ends, with the cause of ctx then. The caller holds the lock.
func (t *Task) work(ctx context.Context) error {
	return poll(ctx, func(timeout int64) error {
		return callOn(&t.handle, func(raw uintptr, f *swig.Error) int32 { return swig.Prefix_task_run(raw, timeout, f) })
	})
}

// Cancel ends items that have no result yet with [ErrCancelled]; a Run in another goroutine returns soon after.
func (t *Task) Cancel() error { return callOn(&t.handle, swig.Prefix_task_cancel) }

// Progress counts the items that have their result, and all.
func (t *Task) Progress() (done, total int, err error) {
	var finished, all int64
	err = callOn(&t.handle, func(raw uintptr, f *swig.Error) int32 {
		return swig.Prefix_task_progress(raw, &finished, &all, f)
	})
	return int(finished), int(all), err
}

// Matrix is an array of rows.
type Matrix struct {
	Rows, Columns int
	Flat          []float32 // row after row
}

// Row is one of them, a part of Flat.
func (m Matrix) Row(row int) []float32 {
	return m.Flat[row*m.Columns : (row+1)*m.Columns : (row+1)*m.Columns]
}

// Values are all numbers in one call: NaN for items that failed.
func (t *Task) Values() (Matrix, error) {
	var rows, columns int64
	if err := callOn(&t.handle, func(raw uintptr, f *swig.Error) int32 {
		return swig.Prefix_task_shape(raw, &rows, &columns, f)
	}); err != nil {
		return Matrix{}, err
	}
	flat, err := arrayOf(&t.handle, int(rows*columns), swig.Prefix_task_values)
	return Matrix{int(rows), int(columns), flat}, err
}

// Order is the columns of a row from best to worst, without failed ones and at most top_n. Of NewRerank and NewClassify
// only.
func (t *Task) Order(row int) ([]int, error) {
	order, err := arrayOf(&t.handle, 64, func(raw uintptr, b []int64, needed *uintptr, f *swig.Error) int32 {
		return swig.Prefix_task_order(raw, int64(row), b, needed, f)
	})
	columns := make([]int, len(order))
	for i, column := range order {
		columns[i] = int(column)
	}
	return columns, err
}

// Statuses are those of all items, 0 for success, in one call.
func (t *Task) Statuses() ([]Status, error) {
	raw, err := arrayOf(&t.handle, 64, swig.Prefix_task_statuses)
	statuses := make([]Status, len(raw))
	for i, status := range raw {
		statuses[i] = Status(status)
	}
	return statuses, err
}

// Result is about one item; its Tag is 1 when the prompt was cut. An item is a text or question, in NewRerank a
// document for a query: query * documents + document.
func (t *Task) Result(item int) (Result, error) {
	raw := swig.ResultInfo{StructSize: swig.SizeofResultInfo}
	if err := callOn(&t.handle, func(h uintptr, f *swig.Error) int32 {
		return swig.Prefix_task_item_info(h, int64(item), &raw, f)
	}); err != nil {
		return Result{}, err
	}
	return newResult(&raw, func() (string, error) { return t.itemText(item, swig.Prefix_task_item_message) })
}

// Text is the answer to a question. The error is that of the item if it failed; the text is what there is of the answer
// then.
func (t *Task) Text(item int) (string, error) {
	text, err := t.itemText(item, swig.Prefix_task_item_text)
	if err != nil {
		text, _ = t.itemText(item, swig.Prefix_task_item_partial_text)
	}
	return text, err
}

func (t *Task) itemText(item int, get func(uintptr, int64, []byte, *uintptr, *swig.Error) int32) (string, error) {
	return textOf(&t.handle, 256, func(h uintptr, b []byte, needed *uintptr, f *swig.Error) int32 {
		return get(h, int64(item), b, needed, f)
	})
}

// Totals is what the engine did for the whole task.
func (t *Task) Totals() (Totals, error) {
	raw := swig.JobTotals{StructSize: swig.SizeofJobTotals}
	err := callOn(&t.handle, func(h uintptr, f *swig.Error) int32 { return swig.Prefix_task_totals(h, &raw, f) })
	return newTotals(&raw), err
}

// Recipes are the names of the shipped recipes: how a task becomes prompts.
func Recipes() []string {
	names := make([]string, swig.Prefix_recipe_count())
	for i := range names {
		names[i] = swig.Prefix_recipe_name(uintptr(i))
	}
	return names
}

// RecipeJSON is the file of a shipped recipe, to start from.
func RecipeJSON(name string) (string, error) {
	return getText(2048, func(b []byte, needed *uintptr, f *swig.Error) int32 {
		return swig.Prefix_recipe_json(name, b, needed, f)
	})
}

// poll repeats a waiting call in slices until it no longer times out.
func poll(ctx context.Context, wait func(timeout int64) error) error {
	for {
		timeout := int64(slice)
		if deadline, ok := ctx.Deadline(); ok {
			timeout = min(slice, max(0, time.Until(deadline).Milliseconds()+1))
		}
		if ctx.Err() != nil {
			timeout = 0
		}
		if err := wait(timeout); !isStatus(err, ErrTimeout) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}
