package prefix_test

import (
	"errors"
	"reflect"
	"testing"

	"prefix.io/prefix"
)

func TestOrder(t *testing.T) {
	found, err := prefix.Order([][]int64{{7, 5}, {8, 6}, {9, 5}}, [][]int32{{1, 4}, {1, 2}, {1, 4}})
	if err != nil {
		t.Fatal(err)
	}
	want := &prefix.TableOrder{
		Rows: []int64{0, 2, 1}, Columns: [][]int32{{1, 0}, {1, 0}, {0, 1}}, Tokens: 13, HitBefore: 0, Hit: 4,
	}
	if !reflect.DeepEqual(found, want) {
		t.Errorf("%+v", found)
	}
	texts, err := prefix.OrderTexts([][]string{{"a", "Dune"}, {"b", "It"}, {"c", "Dune"}})
	if err != nil || !reflect.DeepEqual(texts, want) {
		t.Errorf("%+v, %v", texts, err)
	}
	counted, err := prefix.Order([][]int64{{7, 5}, {9, 5}}, nil)
	if err != nil || counted.Hit != 1 || counted.Tokens != 4 {
		t.Errorf("%+v, %v", counted, err)
	}
	for _, bad := range [][][]int64{nil, {{}}, {{1, 2}, {1}}} {
		if _, err := prefix.Order(bad, nil); !errors.Is(err, prefix.ErrInvalidArgument) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	if _, err := prefix.Order([][]int64{{1}}, [][]int32{{-1}}); !errors.Is(err, prefix.ErrOutOfRange) {
		t.Error(err)
	}
}

func TestPartition(t *testing.T) {
	prompts := [][]prefix.Token{{1, 2, 3}, {7, 8, 9}, {1, 2, 4}, {7, 8, 6}}
	found, err := prefix.Partition(prompts, 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := &prefix.Parts{
		Part: []int32{0, 1, 0, 1}, Order: []int64{0, 2, 3, 1}, Work: []int64{4, 4},
		Tokens: 12, Distinct: 8, Computed: 8, Largest: 4,
	}
	if !reflect.DeepEqual(found, want) {
		t.Errorf("%+v", found)
	}
	for _, parts := range []int{0, -1, 1<<20 + 1, 1 << 40} {
		if _, err := prefix.Partition(prompts, parts, 0); !errors.Is(err, prefix.ErrOutOfRange) {
			t.Errorf("%d: %v", parts, err)
		}
	}
	if _, err := prefix.Partition(prompts, 2, 0.5); !errors.Is(err, prefix.ErrOutOfRange) {
		t.Error(err)
	}
}

func TestEstimateBatch(t *testing.T) {
	found, err := prefix.EstimateBatch([][]prefix.Token{{1, 2}, {1, 3}, {4, 5}, {}})
	want := &prefix.BatchEstimate{Computed: []int64{2, 1, 2, 0}, Tokens: 6, Total: 5}
	if err != nil || !reflect.DeepEqual(found, want) {
		t.Errorf("%+v, %v", found, err)
	}
	if found, err := prefix.EstimateBatch(nil); err != nil || found.Tokens != 0 {
		t.Errorf("%+v, %v", found, err)
	}
}
