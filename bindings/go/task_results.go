package prefix

import (
	"math"
	"slices"

	"prefix.io/prefix/internal/swig"
)

// Count counts the items.
func (t *Task) Count() (int, error) { return t.number(swig.Prefix_task_count) }

// FinishedCount counts the items that are over.
func (t *Task) FinishedCount() (int, error) { return t.number(swig.Prefix_task_finished_count) }

func (t *Task) number(get func(raw uintptr, number *uintptr, f *swig.Error) int32) (int, error) {
	var number uintptr
	err := callOn(&t.handle, func(raw uintptr, f *swig.Error) int32 { return get(raw, &number, f) })
	return int(number), err
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

// Equal says whether shapes and numbers are the same, bit for bit: NaN, which stands for what failed, equals NaN.
func (m Matrix) Equal(other Matrix) bool {
	same := func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }
	return m.Rows == other.Rows && m.Columns == other.Columns && slices.EqualFunc(m.Flat, other.Flat, same)
}

// Values are the numbers of all items in one call, a row for each: NaN for one that failed or is unfinished. Items of
// kinds that make texts have none.
func (t *Task) Values() (Matrix, error) {
	columns, err := t.number(swig.Prefix_task_width)
	if err != nil {
		return Matrix{}, err
	}
	rows, err := t.Count()
	if err != nil {
		return Matrix{}, err
	}
	flat, err := arrayOf(&t.handle, rows*columns, swig.Prefix_task_all_values)
	return Matrix{rows, columns, flat}, err
}

// itemArray reads an array of one item; of one that failed, its error.
func itemArray[E byte | int32 | float32](
	t *Task, item int, guess int, get func(uintptr, uintptr, []E, *uintptr, *swig.Error) int32,
) ([]E, error) {
	return arrayAt(&t.handle, "item", item, guess, get)
}

// ItemValues are the numbers of one item; the error is that of the item if it failed.
func (t *Task) ItemValues(item int) ([]float32, error) {
	return itemArray(t, item, 64, swig.Prefix_task_item_values)
}

// ItemTokens are those that the engine is given for one item, as [Engine.Lookup] and [Engine.Pin] take them: its prompt,
// and what is scored after it, but for labels. They are there before Submit too.
func (t *Task) ItemTokens(item int) ([]Token, error) {
	return itemArray(t, item, 256, swig.Prefix_task_item_tokens)
}

// Text is that of an item, without white space around it; the error is that of the item if it failed.
func (t *Task) Text(item int) (string, error) {
	text, err := itemArray(t, item, 256, swig.Prefix_task_item_text)
	return string(text), err
}

// PartialText is Text, also what there is of a text that was cancelled or ran out of time.
func (t *Task) PartialText(item int) (string, error) {
	text, err := itemArray(t, item, 256, swig.Prefix_task_item_partial_text)
	return string(text), err
}

// TextToken is one of the tokens that a text is made of.
type TextToken struct {
	Token   Token
	Logprob float32
	Offset  int        // the byte of the text where it begins
	Top     []TopToken // with option top_logprobs, the likeliest tokens of its place
}

// Logprobs are, with option logprobs or top_logprobs, the tokens that the text of an item is made of, from number first
// on: without those of a stop text, and without the one that ended the text. With option stream also while the text is
// written: those that begin in a piece are there as soon as the piece is.
func (t *Task) Logprobs(item, first int) ([]TextToken, error) {
	from, err := place("first", first)
	if err != nil {
		return nil, err
	}
	var logprobs []float32
	var offsets []int64
	tokens, err := itemArray(t, item, 64, func(task, at uintptr, tokens []Token, needed *uintptr, f *swig.Error) int32 {
		logprobs, offsets = make([]float32, len(tokens)), make([]int64, len(tokens))
		return swig.Prefix_task_item_logprobs(task, at, from, tokens, needed, logprobs, offsets, f)
	})
	if err != nil {
		return nil, err
	}
	found := make([]TextToken, len(tokens))
	for i, token := range tokens {
		found[i] = TextToken{Token: token, Logprob: logprobs[i], Offset: int(offsets[i])}
		if i > 0 && len(found[0].Top) == 0 {
			continue // where one place has none, no place has
		}
		number := from + uintptr(i)
		top, err := topOf(&t.handle, "item", item, func(
			task, at uintptr, tokens []Token, needed *uintptr, logprobs []float32, f *swig.Error,
		) int32 {
			return swig.Prefix_task_item_top(task, at, number, tokens, needed, logprobs, f)
		})
		if err != nil {
			return nil, err
		}
		if len(top) > 0 {
			found[i].Top = top
		}
	}
	return found, nil
}

// Result is about one item. It is [ErrMisuse] while the item is unfinished; the item's own failure is in Result.Err.
func (t *Task) Result(item int) (Result, error) {
	raw := swig.ResultInfo{StructSize: swig.SizeofResultInfo}
	if err := callAt(&t.handle, "item", item, func(h, at uintptr, f *swig.Error) int32 {
		return swig.Prefix_task_item_info(h, at, &raw, f)
	}); err != nil {
		return Result{}, err
	}
	return newResult(&raw, func() (string, error) {
		message, err := itemArray(t, item, 256, swig.Prefix_task_item_message)
		return string(message), err
	})
}

// Ranked is one of many values.
type Ranked struct {
	Index int // its place among them
	Score float32
}

// Ranking sorts count values of [Task.Values] from number first on, best first, without those of failed items and at
// most option top_n. Of "rerank" these are items, as the documents of one query; of "classify" with L labels, those of
// item i begin at i * L. Other kinds have no order: [ErrMisuse].
func (t *Task) Ranking(first, count int) ([]Ranked, error) {
	many, err := place("count", count)
	if err != nil {
		return nil, err
	}
	var scores []float32
	order, err := arrayAt(&t.handle, "first", first, min(count, 1024), func(h, at uintptr, b []int64, needed *uintptr, f *swig.Error) int32 {
		scores = make([]float32, len(b))
		return swig.Prefix_task_ranking(h, at, many, b, needed, scores, f)
	})
	ranking := make([]Ranked, len(order))
	for i, place := range order {
		ranking[i] = Ranked{int(place), scores[i]}
	}
	return ranking, err
}

// Statuses are those of all items, 0 for success, [ErrNoEvent] for one that is unfinished.
func (t *Task) Statuses() ([]Status, error) {
	raw, err := arrayOf(&t.handle, 64, swig.Prefix_task_statuses)
	statuses := make([]Status, len(raw))
	for i, status := range raw {
		statuses[i] = Status(status)
	}
	return statuses, err
}

// FirstFailure is the error of the first item that failed, with its number; nil when none has so far.
func (t *Task) FirstFailure() (item int, err error) {
	var index uintptr
	err = callOn(&t.handle, func(h uintptr, f *swig.Error) int32 { return swig.Prefix_task_first_failure(h, &index, f) })
	return int(index), err
}

// Totals is what the engine did for the whole task so far.
func (t *Task) Totals() (Totals, error) {
	raw := swig.JobTotals{StructSize: swig.SizeofJobTotals}
	err := callOn(&t.handle, func(h uintptr, f *swig.Error) int32 { return swig.Prefix_task_get_totals(h, &raw, f) })
	return newTotals(&raw), err
}
