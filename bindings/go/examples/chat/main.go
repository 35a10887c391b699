// Command chat answers one message a line from standard input. Every turn finds the ones before it in the cache.
//
//	printf 'What is bread made of?\nAnd cake?\n' | ./env go run ./examples/chat MODEL
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"

	"prefix.io/prefix"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: chat MODEL, with a message in each line of standard input")
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

	var conversation []prefix.Message
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		conversation = append(conversation, prefix.Message{Role: "user", Content: lines.Text()})
		answer, err := turn(ctx, engine, tokenizer, conversation)
		if err != nil {
			return err
		}
		conversation = append(conversation, prefix.Message{Role: "assistant", Content: answer})
	}
	return lines.Err()
}

// turn prints the next message while it is written, and returns it.
func turn(ctx context.Context, engine *prefix.Engine, tokenizer *prefix.Tokenizer, conversation []prefix.Message) (string, error) {
	task, err := prefix.NewTask(engine, tokenizer, "chat", prefix.Options{"stream": true, "max_tokens": 64})
	if err != nil {
		return "", err
	}
	defer task.Close()
	if _, err := task.AddChat(conversation, prefix.ChatOptions{}); err != nil {
		return "", err
	}
	if err := task.Submit(); err != nil {
		return "", err
	}
	for event, err := range task.Events(ctx) {
		if err != nil {
			return "", err
		}
		fmt.Print(event.Text)
	}
	result, err := task.Result(0)
	if err != nil {
		return "", err
	}
	fmt.Printf("\n[%d of %d tokens were in the cache]\n", result.CachedTokens, result.PromptTokens)
	return task.Text(0)
}
