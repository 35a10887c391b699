// Command rerank sorts documents by how well they answer a query.
//
//	./env go run ./examples/rerank MODEL
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"prefix.io/prefix"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: rerank MODEL")
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

	documents := []string{"Bread is baked from flour.", "Paris is the capital of France.", "The moon orbits the earth."}
	ranking, failures, err := prefix.Rerank(ctx, engine, tokenizer, "What is the capital of France?", documents, nil)
	if err != nil {
		return err
	}
	for _, place := range ranking {
		fmt.Printf("%8.3f  %s\n", place.Score, documents[place.Index])
	}
	return failures.Err() // of documents that could not be scored
}
