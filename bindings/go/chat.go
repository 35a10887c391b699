package prefix

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Message is one turn of a conversation. Templates may print it, or parts of it, as JSON: its fields are in the order
// role, content, and those of Extra by their names. A map has its keys in that order too; a struct has its fields, and
// a [json.RawMessage] its members, as they stand there.
//
// Texts that are not UTF-8, of messages as of [ChatOptions], are [ErrInvalidUTF8] at once.
type Message struct {
	Role    string
	Content string
	Extra   map[string]any // what else the template reads: "tool_calls", "reasoning_content", ...
}

// MarshalJSON writes role, content, and then the fields of Extra; one of the same name is in place of these two.
func (m Message) MarshalJSON() ([]byte, error) {
	first := struct {
		Role    any `json:"role"`
		Content any `json:"content"`
	}{m.Role, m.Content}
	others := maps.Clone(m.Extra)
	if role, ok := others["role"]; ok {
		first.Role = role
	}
	if content, ok := others["content"]; ok {
		first.Content = content
	}
	delete(others, "role")
	delete(others, "content")
	text, err := json.Marshal(first)
	if err != nil || len(others) == 0 {
		return text, err
	}
	more, err := json.Marshal(others)
	if err != nil {
		return nil, err
	}
	return slices.Concat(text[:len(text)-1], []byte(","), more[1:]), nil
}

// UnmarshalJSON reads what MarshalJSON writes, as a request of a client has it: what is neither role nor content, and a
// content that is no text, is in Extra, each as a [json.RawMessage] that stays as it stands.
func (m *Message) UnmarshalJSON(text []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return fmt.Errorf("a message: %w", err)
	}
	read := Message{}
	for name, value := range fields {
		var place *string
		switch name {
		case "role":
			place = &read.Role
		case "content":
			place = &read.Content
		}
		if place != nil && value[0] == '"' {
			if err := json.Unmarshal(value, place); err != nil {
				return fmt.Errorf("%s of a message: %w", name, err)
			}
			continue
		}
		if read.Extra == nil {
			read.Extra = map[string]any{}
		}
		read.Extra[name] = value
	}
	*m = read
	return nil
}

// ChatOptions are for chat templates; the zero value asks for the assistant's next turn. The order of what is in Tools
// and the like is that of a [Message].
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
	return toJSON("conversation", item)
}

// chat gives both as JSON.
func chat(messages []Message, options ChatOptions) (conversation, settings string, err error) {
	if messages == nil {
		messages = []Message{}
	}
	conversation, err = toJSON("messages", messages)
	if err != nil {
		return "", "", err
	}
	settings, err = toJSON("chat options", options)
	return conversation, settings, err
}
