package prefix

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"
)

// Message is one turn of a conversation.
type Message struct {
	Role    string
	Content string
	Extra   map[string]any // what else the template reads: "tool_calls", "reasoning_content", ...
}

// MarshalJSON writes the fields of Extra beside role and content.
func (m Message) MarshalJSON() ([]byte, error) {
	fields := map[string]any{"role": m.Role, "content": m.Content}
	maps.Copy(fields, m.Extra)
	return json.Marshal(fields)
}

// ChatOptions are for chat templates; the zero value asks for the assistant's next turn.
type ChatOptions struct {
	NoGenerationPrompt   bool           // do not begin the assistant's turn
	ContinueFinalMessage bool           // leave the last message open, to be continued
	Tools                []any          // tool definitions as JSON schemas
	Documents            []any          // what the template takes as documents
	Variables            map[string]any // further variables of the template, e.g. "enable_thinking"
	Template             string         // name of another template than the default
	Now                  time.Time      // for templates that print the date; the zero value is the clock
}

// MarshalJSON writes what differs from the defaults.
func (o ChatOptions) MarshalJSON() ([]byte, error) { return json.Marshal(o.fields()) }

func (o ChatOptions) fields() map[string]any {
	fields := map[string]any{}
	if o.NoGenerationPrompt || o.ContinueFinalMessage {
		fields["add_generation_prompt"] = false
	}
	if o.ContinueFinalMessage {
		fields["continue_final_message"] = true
	}
	if o.Tools != nil {
		fields["tools"] = o.Tools
	}
	if o.Documents != nil {
		fields["documents"] = o.Documents
	}
	if o.Variables != nil {
		fields["variables"] = o.Variables
	}
	if o.Template != "" {
		fields["template"] = o.Template
	}
	if !o.Now.IsZero() {
		fields["now"] = o.Now.Format("2006-01-02T15:04:05")
	}
	return fields
}

// chatItem is a conversation as an item of a task: its messages, with the options where there are any.
func chatItem(messages []Message, options ChatOptions) (string, error) {
	if messages == nil {
		messages = []Message{}
	}
	var item any = messages
	if fields := options.fields(); len(fields) > 0 {
		fields["messages"] = messages
		item = fields
	}
	text, err := json.Marshal(item)
	if err != nil {
		return "", fmt.Errorf("prefix: conversation: %w", err)
	}
	return string(text), nil
}

// chat gives both as JSON.
func chat(messages []Message, options ChatOptions) (conversation, settings string, err error) {
	if messages == nil {
		messages = []Message{}
	}
	first, err := json.Marshal(messages)
	if err != nil {
		return "", "", fmt.Errorf("prefix: messages: %w", err)
	}
	second, err := json.Marshal(options)
	if err != nil {
		return "", "", fmt.Errorf("prefix: chat options: %w", err)
	}
	return string(first), string(second), nil
}
