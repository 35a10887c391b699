package prefix

import (
	"context"
	"errors"
	"fmt"
)

// Failure is an item that failed.
type Failure struct {
	Item int // its number: that of the document, text, question or prompt
	Err  error
}

// Failures are the items that failed, ascending. Where a function returns them, its error is nil as soon as one item
// succeeded. When ctx ends, what is done is kept, and the rest are failures with [ErrCancelled] and the cause.
type Failures []Failure

// Err joins them; nil when there are none.
func (f Failures) Err() error {
	failures := make([]error, len(f))
	for i, failure := range f {
		failures[i] = fmt.Errorf("item %d: %w", failure.Item, failure.Err)
	}
	return errors.Join(failures...)
}

// Rerank sorts documents by how well they fit a query, best first. Those that could not be scored are failures.
func Rerank(
	ctx context.Context, engine *Engine, tokenizer *Tokenizer, query string, documents []string, options Options,
) ([]Ranked, Failures, error) {
	return ask(ctx, engine, tokenizer, "rerank", options, func(task *Task) error {
		_, err := task.AddProduct([]string{query}, documents)
		return err
	}, func(task *Task) ([]Ranked, error) { return task.Ranking(0, len(documents)) })
}

// Embed makes a vector of each text: a row each, NaN for one that failed.
func Embed(
	ctx context.Context, engine *Engine, tokenizer *Tokenizer, texts []string, options Options,
) (Matrix, Failures, error) {
	return ask(ctx, engine, tokenizer, "embed", options, adding(texts), (*Task).Values)
}

// Classify gives the probability of each label (column) for each text (row), NaN for one that failed. Without labels
// they are those of the model's classification head, in its order.
func Classify(
	ctx context.Context, engine *Engine, tokenizer *Tokenizer, texts, labels []string, options Options,
) (Matrix, Failures, error) {
	return ask(ctx, engine, tokenizer, "classify", options, func(task *Task) error {
		if len(labels) > 0 {
			if err := task.SetLabels(labels...); err != nil {
				return err
			}
		}
		return adding(texts)(task)
	}, (*Task).Values)
}

// Answer answers many questions about one text, which is computed once. Of one that failed there is what was begun. With
// option samples the answers to a question follow each other.
func Answer(
	ctx context.Context, engine *Engine, tokenizer *Tokenizer, text string, questions []string, options Options,
) ([]string, Failures, error) {
	return ask(ctx, engine, tokenizer, "answer", options, func(task *Task) error {
		_, err := task.AddProduct([]string{text}, questions)
		return err
	}, texts)
}

// Complete continues each prompt, as option recipe says. Of one that failed there is what was begun. With option samples
// the texts of a prompt follow each other.
func Complete(
	ctx context.Context, engine *Engine, tokenizer *Tokenizer, prompts []string, options Options,
) ([]string, Failures, error) {
	return ask(ctx, engine, tokenizer, "generate", options, adding(prompts), texts)
}

// Chat gives the next message of a conversation; chat is for the model's template, options for the task. When its
// text fails there is what was begun, beside the error. It is one text: option samples is for [Chats].
func Chat(
	ctx context.Context, engine *Engine, tokenizer *Tokenizer, messages []Message, chat ChatOptions, options Options,
) (string, error) {
	text, _, err := ask(ctx, engine, tokenizer, "chat", options, func(task *Task) error {
		if _, err := task.AddChat(messages, chat); err != nil {
			return err
		}
		return single(task)
	}, func(task *Task) (string, error) { return task.PartialText(0) })
	return text, err
}

// Chats gives the next message of each conversation; of one that failed there is what was begun. With option samples the
// messages for a conversation follow each other.
func Chats(
	ctx context.Context, engine *Engine, tokenizer *Tokenizer, conversations [][]Message, chat ChatOptions, options Options,
) ([]string, Failures, error) {
	return ask(ctx, engine, tokenizer, "chat", options, func(task *Task) error {
		for _, messages := range conversations {
			if _, err := task.AddChat(messages, chat); err != nil {
				return err
			}
		}
		return nil
	}, texts)
}

// single refuses a task that writes several texts.
func single(task *Task) error {
	count, err := task.Count()
	if err == nil && count != 1 {
		err = &Error{Status: ErrInvalidArgument, Message: fmt.Sprintf(
			"option samples is %d; Chat gives one text, Chats gives all", count)}
	}
	return err
}

func adding(texts []string) func(*Task) error {
	return func(task *Task) error {
		_, err := task.Add(texts...)
		return err
	}
}

// texts has those of all items, of which option samples makes several for each prompt.
func texts(task *Task) ([]string, error) {
	count, err := task.Count()
	if err != nil {
		return nil, err
	}
	texts := make([]string, count)
	for item := range texts {
		if texts[item], err = task.PartialText(item); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// ask makes a task, runs it and reads what came of it.
func ask[T any](
	ctx context.Context, engine *Engine, tokenizer *Tokenizer, kind string, options Options,
	fill func(*Task) error, read func(*Task) (T, error),
) (results T, failures Failures, err error) {
	task, err := NewTask(engine, tokenizer, kind, options)
	if err != nil {
		return results, nil, err
	}
	defer task.Close()
	if err := fill(task); err != nil {
		return results, nil, err
	}
	ended := task.Run(ctx)
	if ended != nil && !errors.Is(ended, ErrCancelled) {
		return results, nil, ended
	}
	failures, items, err := task.failures(ended)
	if err != nil {
		return results, nil, err
	}
	if results, err = read(task); err != nil {
		return results, failures, err
	}
	if items > 0 && len(failures) == items {
		return results, failures, failures[0].Err
	}
	return results, failures, nil
}

// failures are those of all items; ended is the error of the cancelled ones, when it is not nil.
func (t *Task) failures(ended error) (failures Failures, items int, err error) {
	statuses, err := t.Statuses()
	for item, status := range statuses {
		if status == 0 {
			continue
		}
		failure := ended
		if ended == nil || status != ErrCancelled {
			result, err := t.Result(item)
			if err != nil {
				return nil, 0, err
			}
			failure = result.Err
		}
		failures = append(failures, Failure{item, failure})
	}
	return failures, len(statuses), err
}
