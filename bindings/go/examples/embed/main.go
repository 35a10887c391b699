// Command embed makes a vector of each text, and prints which other text is nearest.
//
//	./env go run ./examples/embed MODEL
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"prefix.io/prefix"
)

var texts = []string{"The cat sleeps.", "A kitten is asleep.", "Stocks fell on Monday.", "Markets went down at the start of the week."}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: embed MODEL")
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

	vectors, failures, err := prefix.Embed(ctx, engine, tokenizer, texts, nil)
	if err != nil {
		return err
	}
	for i := range texts {
		nearest, most := i, float32(-2)
		for other := range texts {
			if cosine := dot(vectors.Row(i), vectors.Row(other)); other != i && cosine > most {
				nearest, most = other, cosine
			}
		}
		fmt.Printf("%6.3f  %s  %s\n", most, texts[i], texts[nearest])
	}
	return failures.Err() // of texts that have no vector
}

// dot is the cosine of two vectors, since all have length 1.
func dot(a, b []float32) (sum float32) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}
