package prefix_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"prefix.io/prefix"
)

// One prompt and many continuations: the prompt is computed once, and all scores come back in one call.
func Example() {
	ctx := context.Background()
	engine, err := prefix.Open(ctx, "../../build/golden-models/llama-base", prefix.Options{"isa": "scalar", "dtype": "f32"})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	batch, _ := engine.NewBatch()
	batch.Add(prefix.Continuations{Tokens: []int32{1, 5, 9, 12}, Continuations: [][]int32{{3, 4}, {7}}})
	job, err := engine.Run(ctx, batch)
	if err != nil {
		log.Fatal(err)
	}
	scores, _ := job.AllValues()
	fmt.Printf("%.3f\n", scores.Flat())
	// Output: [-5.888 -5.671 -6.480]
}

func ExampleJob_Events() {
	ctx := context.Background()
	engine, _ := prefix.Open(ctx, "../../build/golden-models/llama-base", prefix.Options{"isa": "scalar", "dtype": "f32"})
	defer engine.Close()
	batch, _ := engine.NewBatch()
	batch.Add(prefix.Generate{Tokens: []int32{1, 5, 9, 12}, Options: prefix.Options{"max_tokens": 3}})
	job, _ := engine.Submit(ctx, batch)
	defer job.Close()
	for event, err := range job.Events(ctx) {
		fmt.Println(event.Kind, event.Token, err)
	}
	// Output:
	// started -1 <nil>
	// token 57 <nil>
	// token 57 <nil>
	// token 57 <nil>
	// finished -1 <nil>
}

func ExampleEngine_Pin() {
	ctx := context.Background()
	engine, err := prefix.Open(ctx, "../../build/golden-models/llama-base", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	system := []int32{1, 5, 9, 12, 3, 4, 7}
	batch, _ := engine.NewBatch()
	batch.Add(prefix.Warm{Tokens: system})
	engine.Run(ctx, batch)
	lease, _ := engine.Pin(0, system, 0) // until it is closed
	defer lease.Close()
	path := filepath.Join(os.TempDir(), "prefix-cache")
	saved, err := engine.SaveSnapshot(path) // a later process begins with LoadSnapshot
	fmt.Println(lease.Tokens, "tokens stay in the cache, and", saved.Tokens, "are saved", err)
	// Output: 7 tokens stay in the cache, and 7 are saved <nil>
}

func ExampleTokenizer_ChatTokens() {
	tokenizer, err := prefix.OpenTokenizer("../../build/models/SmolLM2-135M-Instruct.Q4_1.gguf")
	if err != nil {
		log.Fatal(err)
	}
	defer tokenizer.Close()
	messages := []prefix.Message{{Role: "system", Content: "Be brief."}, {Role: "user", Content: "What is a trie?"}}
	tokens, _ := tokenizer.ChatTokens(messages, prefix.ChatOptions{})
	text, _ := tokenizer.Decode(tokens, 0)
	fmt.Printf("%d tokens: %q\n", len(tokens), text)
	// Output: 23 tokens: "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWhat is a trie?<|im_end|>\n<|im_start|>assistant\n"
}

func ExampleRerank() {
	ctx := context.Background()
	model := "../../build/models/SmolLM2-135M-Instruct.Q4_1.gguf"
	engine, err := prefix.Open(ctx, model, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	tokenizer, err := prefix.OpenTokenizer(model)
	if err != nil {
		log.Fatal(err)
	}
	defer tokenizer.Close()
	documents := []string{"Bread is baked from flour.", "Paris is the capital of France."}
	ranking, failures, err := prefix.Rerank(ctx, engine, tokenizer, "What is the capital of France?", documents, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(documents[ranking[0].Index], len(failures), "failed")
	// Output: Paris is the capital of France. 0 failed
}

// A text while it is written.
func ExampleTask_Events() {
	ctx := context.Background()
	model := "../../build/models/SmolLM2-135M-Instruct.Q4_1.gguf"
	engine, err := prefix.Open(ctx, model, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	tokenizer, err := prefix.OpenTokenizer(model)
	if err != nil {
		log.Fatal(err)
	}
	defer tokenizer.Close()
	task, err := prefix.NewTask(engine, tokenizer, "answer", prefix.Options{"stream": true, "stop": []string{"."}})
	if err != nil {
		log.Fatal(err)
	}
	defer task.Close()
	if _, err := task.Add("Bread is baked from flour.", "What is bread baked from?"); err != nil {
		log.Fatal(err)
	}
	if err := task.Submit(); err != nil {
		log.Fatal(err)
	}
	for event, err := range task.Events(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(event.Text)
	}
	if _, err := task.FirstFailure(); err != nil { // no event says why a text failed
		log.Fatal(err)
	}
	// Output: Bread is baked from flour
}
