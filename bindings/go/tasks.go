package prefix

import (
	"context"
	"iter"
	"runtime"
	"sync/atomic"

	"prefix.io/prefix/internal/swig"
)

// Task turns texts into scores, vectors or texts. It is filled with items, submitted once, and waited for; what its
// prompts share is computed once. The functions [Rerank], [Embed], [Classify], [Answer], [Complete] and [Chat] do all
// of that in one call.
//
//	kind        an item is               its values, or text
//	"rerank"    a query, a document      one score; higher is better
//	"embed"     a text                   a vector
//	"classify"  a text                   a probability for each label
//	"answer"    a context, a question    a text
//	"generate"  a prompt                 a text
//	"chat"      a conversation           a text
type Task struct {
	handle
	tag  atomic.Int64
	bell bell
}

// NewTask makes a task without items. Its options are those of tasks and of the requests that it makes, for instance
// "recipe" and "namespace"; one that means nothing to this kind is [ErrInvalidArgument].
func NewTask(engine *Engine, tokenizer *Tokenizer, kind string, options Options) (*Task, error) {
	native, release, err := options.native()
	if err != nil {
		return nil, err
	}
	defer release()
	e, err := engine.ptr()
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(engine)
	var raw uintptr
	if err := callOn(&tokenizer.handle, func(t uintptr, f *swig.Error) int32 {
		return swig.Prefix_task_create(e, t, kind, native, &raw, f)
	}); err != nil {
		return nil, err
	}
	task := &Task{}
	task.own(raw, "task", swig.Prefix_task_release)
	return task, nil
}

// SetTag says which tag comes back with the items that are added from now on; it is 0 before.
func (t *Task) SetTag(tag int64) { t.tag.Store(tag) }

// SetLabels is for "classify": the labels of all items, in place of earlier ones.
func (t *Task) SetLabels(labels ...string) error {
	packed := pack(labels)
	return callOn(&t.handle, func(raw uintptr, f *swig.Error) int32 { return swig.Prefix_task_set_labels(raw, packed, f) })
}

// Add adds items and returns the number of the first. Where an item has two texts they follow each other: query,
// document, query, document. An item with a bad text fails alone, later.
func (t *Task) Add(texts ...string) (int, error) {
	packed := pack(texts)
	return t.add(func(raw uintptr, index *uintptr, f *swig.Error) int32 {
		return swig.Prefix_task_add(raw, packed, t.tag.Load(), index, f)
	})
}

// AddPairs is Add for items of two texts.
func (t *Task) AddPairs(pairs ...[2]string) (int, error) {
	texts := make([]string, 0, 2*len(pairs))
	for _, pair := range pairs {
		texts = append(texts, pair[:]...)
	}
	return t.Add(texts...)
}

// AddProduct adds an item for every second text with every first one, as all documents for each query, and returns the
// number of the first: firsts[i] with seconds[j] is item i * len(seconds) + j after it.
func (t *Task) AddProduct(firsts, seconds []string) (int, error) {
	first, second := pack(firsts), pack(seconds)
	return t.add(func(raw uintptr, index *uintptr, f *swig.Error) int32 {
		return swig.Prefix_task_add_product(raw, first, second, t.tag.Load(), index, f)
	})
}

// AddChat is Add for "chat": a conversation, with what the model's template is told besides. One that the template or
// the library refuses fails alone, later; one that JSON cannot have is an error at once.
func (t *Task) AddChat(messages []Message, options ChatOptions) (int, error) {
	item, err := chatItem(messages, options)
	if err != nil {
		return 0, err
	}
	return t.Add(item)
}

func (t *Task) add(add func(raw uintptr, index *uintptr, f *swig.Error) int32) (int, error) {
	var index uintptr
	err := callOn(&t.handle, func(raw uintptr, f *swig.Error) int32 { return add(raw, &index, f) })
	return int(index), err
}

// InfoJSON says what the task is made of: its recipe, and why it has this one.
func (t *Task) InfoJSON() (string, error) { return textOf(&t.handle, 256, swig.Prefix_task_info_json) }

// Submit starts the task, once; nothing can be added after it. The prompts of its beginning are encoded before it
// returns.
func (t *Task) Submit() error { return callOn(&t.handle, swig.Prefix_task_submit) }

// Wait waits for all items, whatever becomes of them. When ctx ends first it returns the error of ctx, and the task
// goes on.
func (t *Task) Wait(ctx context.Context) error {
	raw, err := t.ptr()
	if err != nil {
		return err
	}
	defer runtime.KeepAlive(t)
	return t.told(await(ctx, func() error {
		return call(func(f *swig.Error) int32 { return swig.Prefix_task_wait(raw, 0, f) })
	}, func(queue uintptr, tag int64, f *swig.Error) int32 {
		return swig.Prefix_task_notify(raw, queue, tag, f)
	}))
}

// Run submits the task and waits for it. When ctx ends first, items without a result end as Cancel ends them, and Run
// returns [ErrCancelled] with the cause; what had its result by then keeps it.
func (t *Task) Run(ctx context.Context) error {
	if ctx.Err() != nil {
		if err := t.Cancel(); err != nil {
			return err
		}
	}
	stop := context.AfterFunc(ctx, func() { t.Cancel() })
	defer stop()
	if err := t.Submit(); err != nil {
		return err
	}
	if err := t.Wait(context.Background()); err != nil {
		return err
	}
	if !stop() {
		return cancelled(ctx)
	}
	return nil
}

// Cancel ends items that have no result yet with [ErrCancelled]; texts that were begun keep what there is. It returns
// at once; Wait says when it is done.
func (t *Task) Cancel() error { return callOn(&t.handle, swig.Prefix_task_cancel) }

// Events yields what happens until the task is over: [EventText] with option stream, and [EventFinished] or
// [EventError] when an item can be read. The pieces of a text add up to [Task.Text]. Each event goes to one reader. When
// ctx ends first, the last pair has its error; the task goes on.
func (t *Task) Events(ctx context.Context) iter.Seq2[Event, error] {
	return events(ctx, &t.handle, &t.bell, swig.Prefix_task_notify_events, func(raw *swig.Event) (string, error) {
		return textOf(&t.handle, 64, func(task uintptr, b []byte, needed *uintptr, f *swig.Error) int32 {
			return swig.Prefix_task_next_event(task, 0, raw, b, needed, f)
		})
	})
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
