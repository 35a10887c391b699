package prefix

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"unicode/utf8"
)

// toJSON is [json.Marshal] of what a caller gave. Marshal writes U+FFFD for bytes that are no UTF-8, which makes one
// text of two, and base64 for a []byte: both are errors here.
func toJSON(what string, value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("prefix: %s: %w", what, err)
	}
	// Marshal has been through the value, so it ends.
	if err := checkTexts(what, reflect.ValueOf(value)); err != nil {
		return "", err
	}
	return string(text), nil
}

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
	// Those of this package, which write all of their fields.
	plain = map[reflect.Type]bool{reflect.TypeFor[Message](): true, reflect.TypeFor[ChatOptions](): true}
)

// checkTexts looks at every text that Marshal writes for v. What a type of the caller writes by MarshalJSON is its own.
func checkTexts(what string, v reflect.Value) error {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if !v.IsValid() {
		return nil // it was nil
	}
	own := v.Type()
	if v.CanAddr() {
		own = reflect.PointerTo(own) // has the methods of both
	}
	switch {
	case plain[v.Type()]:
	case own.Implements(marshaler):
		return nil
	case own.Implements(textMarshaler) && v.CanInterface():
		if v.CanAddr() {
			v = v.Addr()
		}
		text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
		if err != nil {
			return fmt.Errorf("prefix: %s: %w", what, err)
		}
		return checkText(what, string(text))
	}
	switch v.Kind() {
	case reflect.String:
		return checkText(what, v.String())
	case reflect.Map:
		for entry := v.MapRange(); entry.Next(); {
			if err := checkTexts(what, entry.Key()); err != nil {
				return err
			}
			if err := checkTexts(what, entry.Value()); err != nil {
				return err
			}
		}
	case reflect.Slice, reflect.Array:
		if isBytes(v) {
			return &Error{Status: ErrInvalidArgument, Message: fmt.Sprintf(
				"%s: %.60q is a []byte, which JSON has as base64; give a string, or a []int of numbers", what, v.Bytes())}
		}
		for i := range v.Len() {
			if err := checkTexts(what, v.Index(i)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if field.Tag.Get("json") == "-" || !field.IsExported() && !field.Anonymous {
				continue
			}
			if err := checkTexts(what, v.Field(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// isBytes says whether Marshal has v as base64.
func isBytes(v reflect.Value) bool {
	if v.Kind() != reflect.Slice || v.IsNil() || v.Type().Elem().Kind() != reflect.Uint8 {
		return false
	}
	element := reflect.PointerTo(v.Type().Elem())
	return !element.Implements(marshaler) && !element.Implements(textMarshaler)
}

func checkText(what, text string) error {
	if utf8.ValidString(text) {
		return nil
	}
	bad := 0
	for r, size := utf8.DecodeRuneInString(text); r != utf8.RuneError || size != 1; {
		bad += size
		r, size = utf8.DecodeRuneInString(text[bad:])
	}
	return &Error{Status: ErrInvalidUTF8, Message: fmt.Sprintf(
		"%s: the text %.60q is not UTF-8: byte %#02x at %d", what, text, text[bad], bad)}
}
