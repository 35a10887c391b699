package prefix_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"prefix.io/prefix"
)

// likeliest are the likeliest tokens after these, from the logits of all.
func likeliest(t testing.TB, engine *prefix.Engine, tokens []prefix.Token, count int) []prefix.TopToken {
	t.Helper()
	ids := make([]prefix.Token, 131)
	for i := range ids {
		ids[i] = prefix.Token(i)
	}
	batch := must(engine.NewBatch())(t)
	must(batch.Add(prefix.Logits{Tokens: tokens, IDs: ids}))(t)
	logits := must(must(engine.Run(background, batch))(t).Values(0))(t)
	sum := 0.0
	for _, logit := range logits {
		sum += math.Exp(float64(logit))
	}
	all := make([]prefix.TopToken, len(ids))
	for i, logit := range logits {
		all[i] = prefix.TopToken{Token: ids[i], Logprob: float32(float64(logit) - math.Log(sum))}
	}
	slices.SortStableFunc(all, func(a, b prefix.TopToken) int {
		switch {
		case a.Logprob > b.Logprob:
			return -1
		case a.Logprob < b.Logprob:
			return 1
		}
		return 0
	})
	return all[:count]
}

func areLikeliest(t testing.TB, top, want []prefix.TopToken) {
	t.Helper()
	same := func(a, b prefix.TopToken) bool {
		return a.Token == b.Token && math.Abs(float64(a.Logprob-b.Logprob)) < 1e-4
	}
	if !slices.EqualFunc(top, want, same) {
		t.Errorf("%v, not %v", top, want)
	}
}

func TestTheLikeliestTokensAreThoseOfAllLogits(t *testing.T) {
	engine := open(t)
	prompt := []prefix.Token{1, 5, 9}
	options := prefix.Options{}.MaxTokens(4).IgnoreEOS(true).TopLogprobs(3)
	batch := must(engine.NewBatch())(t)
	for _, request := range []prefix.Request{
		prefix.Generate{Tokens: prompt, Options: options}, prefix.Logprobs{Tokens: prompt, From: 1, Options: prefix.Options{}.TopLogprobs(3)},
		prefix.Generate{Tokens: prompt, Options: options.TopLogprobs(131)}, prefix.Generate{Tokens: prompt},
		prefix.Generate{Tokens: []prefix.Token{999}, Options: options},
	} {
		must(batch.Add(request))(t)
	}
	job := must(engine.Run(background, batch))(t)
	generated, top := must(job.Tokens(0))(t), must(job.Top(0))(t)
	if len(generated) != 4 || len(top) != 4 {
		t.Fatal(generated, top)
	}
	for place, of := range top {
		areLikeliest(t, of, likeliest(t, engine, append(slices.Clone(prompt), generated[:place]...), 3))
		areLikeliest(t, must(job.PartialTop(0, place))(t), of)
	}
	scored := must(job.Top(1))(t)
	if len(scored) != 2 {
		t.Fatal(scored)
	}
	for place, of := range scored {
		areLikeliest(t, of, likeliest(t, engine, prompt[:place+1], 3))
	}
	areLikeliest(t, must(job.Top(2))(t)[0], likeliest(t, engine, prompt, 131))
	if none := must(job.Top(3))(t); none != nil {
		t.Error(none)
	}
	_, err := job.Top(4)
	is(t, err, prefix.ErrOutOfRange)
	for _, place := range []int{-1, 4} {
		_, err := job.PartialTop(0, place)
		is(t, err, prefix.ErrOutOfRange)
	}
}

func TestBiasesAreNumbersOfTokens(t *testing.T) {
	engine := open(t)
	prompt := []prefix.Token{1, 5, 9}
	best := likeliest(t, engine, prompt, 1)[0].Token
	options := prefix.Options{}.MaxTokens(1).LogitBias(map[prefix.Token]float64{best: -100, 77: 100, 128: 2.5e-7})
	list := map[prefix.Token]string{best: fmt.Sprintf("%d:-100", best), 77: "77:100", 128: "128:2.5e-07"}
	want := ""
	for _, token := range slices.Sorted(slices.Values([]prefix.Token{best, 77, 128})) {
		if want != "" {
			want += ","
		}
		want += list[token]
	}
	if text := must(options.Get("logit_bias"))(t); text != want {
		t.Errorf("%s, not %s", text, want)
	}
	batch := must(engine.NewBatch())(t)
	must(batch.Add(prefix.Generate{Tokens: prompt, Options: options}))(t)
	if tokens := must(must(engine.Run(background, batch))(t).Tokens(0))(t); !slices.Equal(tokens, []prefix.Token{77}) {
		t.Error(tokens)
	}
	is(t, prefix.Options{}.LogitBias(map[prefix.Token]float64{7: 100.5}).Check(), prefix.ErrOutOfRange)
	is(t, prefix.Options{}.LogitBias(map[prefix.Token]float64{7: math.NaN()}).Check(), prefix.ErrInvalidArgument)
}
