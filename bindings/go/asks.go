package prefix

import (
	"context"
	"errors"
	"fmt"
)

// Ranked is a document with its score.
type Ranked struct {
	Document int // number in the list of documents
	Score    float32
}

// Rerank sorts documents by how well they fit a query, best first. The error names documents that could not be
// scored; the others are returned all the same, also when ctx ends before all are done. So in the functions below.
func Rerank(
	ctx context.Context, engine *Engine, tokenizer *Tokenizer, query string, documents []string, options TaskOptions,
) ([]Ranked, error) {
	task, err := NewRerank(engine, tokenizer, []string{query}, documents, options)
	if err != nil {
		return nil, err
	}
	defer task.Close()
	values, failed, err := task.finish(ctx)
	if err != nil {
		return nil, err
	}
	order, err := task.Order(0)
	if err != nil {
		return nil, err
	}
	ranking := make([]Ranked, len(order))
	for i, document := range order {
		ranking[i] = Ranked{document, values.Flat[document]}
	}
	return ranking, failed
}

// Embed makes a vector of each text: one row each. The error names texts that failed, whose rows are NaN.
func Embed(
	ctx context.Context, engine *Engine, tokenizer *Tokenizer, texts []string, options TaskOptions,
) (Matrix, error) {
	task, err := NewEmbed(engine, tokenizer, texts, options)
	if err != nil {
		return Matrix{}, err
	}
	defer task.Close()
	values, failed, err := task.finish(ctx)
	return values, errors.Join(err, failed)
}

// Answer answers many questions about one text, which is computed once. The error names questions that failed, whose
// answers are what there is of them.
func Answer(
	ctx context.Context, engine *Engine, tokenizer *Tokenizer, text string, questions []string, options TaskOptions,
) ([]string, error) {
	task, err := NewAnswer(engine, tokenizer, text, questions, options)
	if err != nil {
		return nil, err
	}
	defer task.Close()
	_, failed, err := task.finish(ctx)
	if err != nil {
		return nil, err
	}
	answers := make([]string, len(questions))
	for i := range answers {
		answers[i], _ = task.Text(i) // its error is in failed
	}
	return answers, failed
}

// Classify gives the probability of each label (column) for each text (row). The error names texts that failed,
// whose rows are NaN.
func Classify(
	ctx context.Context, engine *Engine, tokenizer *Tokenizer, texts, labels []string, options TaskOptions,
) (Matrix, error) {
	task, err := NewClassify(engine, tokenizer, texts, labels, options)
	if err != nil {
		return Matrix{}, err
	}
	defer task.Close()
	values, failed, err := task.finish(ctx)
	return values, errors.Join(err, failed)
}

// finish runs a task to its end, which comes early when ctx ends, and returns its values, with the failures of its items
// and of ctx.
func (t *Task) finish(ctx context.Context) (values Matrix, failed, err error) {
	ended := t.Run(ctx)
	if ended != nil && !errors.Is(ended, ErrCancelled) {
		return Matrix{}, nil, ended
	}
	statuses, err := t.Statuses()
	if err != nil {
		return Matrix{}, nil, err
	}
	failures := []error{ended}
	for item, status := range statuses {
		if status == 0 || ended != nil && status == ErrCancelled {
			continue
		}
		result, err := t.Result(item)
		if err != nil {
			return Matrix{}, nil, err
		}
		failures = append(failures, fmt.Errorf("item %d: %w", item, result.Err))
	}
	values, err = t.Values()
	return values, errors.Join(failures...), err
}
