// Command qa answers many questions about one text, which is computed once for all of them.
//
//	./env go run ./examples/qa MODEL
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"prefix.io/prefix"
)

const text = "Ada Lovelace was born in London in 1815. In 1843 she published notes on the Analytical Engine, " +
	"a machine that Charles Babbage had designed. The notes hold a program that computes Bernoulli numbers."

var questions = []string{"Where was Ada Lovelace born?", "When were the notes published?", "What do the notes hold?"}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: qa MODEL")
	}
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(model string) error {
	ctx := context.Background()
	engine, err := prefix.Open(ctx, model, nil)
	if err != nil {
		return err
	}
	defer engine.Close()
	tokenizer, err := prefix.OpenTokenizer(model)
	if err != nil {
		return err
	}
	defer tokenizer.Close()

	answers, failures, err := prefix.Answer(ctx, engine, tokenizer, text, questions, prefix.Options{"max_tokens": 40})
	if err != nil {
		return err
	}
	for i, answer := range answers {
		fmt.Printf("Q  %s\nA  %s\n", questions[i], answer)
	}
	stats, err := engine.Stats()
	if err != nil {
		return err
	}
	fmt.Printf("%d tokens were given, and %d of them computed\n", stats.TokensGiven, stats.TokensComputed)
	return failures.Err() // of questions that could not be answered
}
