package prefix

import (
	"fmt"

	"prefix.io/prefix/internal/swig"
)

// TableOrder is an order of a table in which prompts share the longest prefixes with the one before.
type TableOrder struct {
	Rows      []int64   // the row of each prompt
	Columns   [][]int32 // the columns of each prompt, as they stand in it
	Tokens    int64     // of all cells
	HitBefore int64     // that prompts share with the one before, in the order given
	Hit       int64     // in this order
}

// Order orders the rows of a table, and the columns within each row. values are its rows: any number that stands for a
// cell's text, equal for equal cells of a column; lengths the tokens of each cell, nil to count each as 1.
// [ErrInvalidArgument]: rows of different lengths, or a value with two lengths. It needs no engine.
func Order(values [][]int64, lengths [][]int32) (*TableOrder, error) {
	var columns int
	if len(values) > 0 {
		columns = len(values[0])
	}
	flat, err := flatten(values, columns)
	if err != nil {
		return nil, err
	}
	sizes, err := flatten(lengths, columns)
	if err != nil {
		return nil, err
	}
	raw := swig.OrderInfo{StructSize: swig.SizeofOrderInfo}
	rows, order := make([]int64, len(values)), make([]int32, len(flat))
	if err := call(func(f *swig.Error) int32 {
		return swig.Prefix_order(flat, sizes, uintptr(columns), rows, order, &raw, f)
	}); err != nil {
		return nil, err
	}
	found := &TableOrder{Rows: rows, Tokens: raw.Tokens, HitBefore: raw.HitBefore, Hit: raw.Hit}
	for i := range rows {
		found.Columns = append(found.Columns, order[i*columns:(i+1)*columns:(i+1)*columns])
	}
	return found, nil
}

// OrderTexts is [Order] of texts, whose bytes stand for tokens.
func OrderTexts(rows [][]string) (*TableOrder, error) {
	values, lengths := make([][]int64, len(rows)), make([][]int32, len(rows))
	numbers := map[string]int64{}
	for r, row := range rows {
		for _, text := range row {
			number, known := numbers[text]
			if !known {
				number = int64(len(numbers))
				numbers[text] = number
			}
			values[r] = append(values[r], number)
			lengths[r] = append(lengths[r], int32(len(text)))
		}
	}
	return Order(values, lengths)
}

func flatten[E int32 | int64](rows [][]E, columns int) ([]E, error) {
	flat := make([]E, 0, len(rows)*columns)
	for r, row := range rows {
		if len(row) != columns {
			return nil, fmt.Errorf("%w: row %d has %d cells, the first one %d", ErrInvalidArgument, r, len(row), columns)
		}
		flat = append(flat, row...)
	}
	return flat, nil
}

// Parts are the prompts of a batch, shared out among workers.
type Parts struct {
	Part     []int32 // of each prompt
	Order    []int64 // the prompts, part after part, those that share prefixes beside each other
	Work     []int64 // the different tokens of each part
	Tokens   int64   // of all prompts
	Distinct int64   // of them: what one worker would compute
	Computed int64   // by all parts together
	Largest  int64   // by the part that computes the most
}

// Partition shares prompts out among workers that each have a cache of their own: parts of about equal work, cut where
// the fewest tokens are computed more than once. A part has at most balance times the mean; 0 stands for 1.05.
// [ErrOutOfRange]: parts below 1, a balance below 1, a negative token. It needs no engine.
func Partition(prompts [][]Token, parts int, balance float64) (*Parts, error) {
	if int(int32(parts)) != parts {
		return nil, fmt.Errorf("%w: %d parts", ErrOutOfRange, parts)
	}
	joined, offsets := join(prompts)
	raw := swig.PartitionInfo{StructSize: swig.SizeofPartitionInfo}
	found := &Parts{
		Part: make([]int32, len(prompts)), Order: make([]int64, len(prompts)), Work: make([]int64, max(0, min(parts, 1<<20))),
	}
	if err := call(func(f *swig.Error) int32 {
		return swig.Prefix_partition(joined, offsets, int32(parts), balance, found.Part, found.Order, found.Work, &raw, f)
	}); err != nil {
		return nil, err
	}
	found.Tokens, found.Distinct, found.Computed, found.Largest = raw.Tokens, raw.Distinct, raw.Computed, raw.Largest
	return found, nil
}

// BatchEstimate is what a batch of prompts costs an engine that has nothing of them in its cache.
type BatchEstimate struct {
	Computed []int64 // by each prompt: its tokens without those that a prompt before it has
	Tokens   int64   // of all prompts
	Total    int64   // computed in all
}

// EstimateBatch counts what requests with these prompts would compute as one batch. It needs no engine.
func EstimateBatch(prompts [][]Token) (*BatchEstimate, error) {
	joined, offsets := join(prompts)
	raw := swig.EstimateInfo{StructSize: swig.SizeofEstimateInfo}
	found := &BatchEstimate{Computed: make([]int64, len(prompts))}
	if err := call(func(f *swig.Error) int32 {
		return swig.Prefix_estimate_batch(joined, offsets, found.Computed, &raw, f)
	}); err != nil {
		return nil, err
	}
	found.Tokens, found.Total = raw.Tokens, raw.Computed
	return found, nil
}
