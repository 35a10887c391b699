package prefix

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"prefix.io/prefix/internal/swig"
)

// Options are settings of an engine, a request or a task, by name or by methods: Options{"threads": 2} is
// Options{}.Threads(2). [OptionInfos] lists them all. Values are numbers, booleans, strings or lists of integers or
// strings; sizes may be strings such as "2G". Those of an engine may also have a *[Pool] as "pool". A string that is not
// UTF-8 is [ErrInvalidUTF8], a []byte or a [time.Duration], which only methods take, [ErrInvalidArgument].
type Options map[string]any

// native makes the options of one call; release takes 0.
func (o Options) native() (raw uintptr, release func(), err error) {
	if len(o) == 0 {
		return 0, func() {}, nil
	}
	if err := o.checkTimes(); err != nil {
		return 0, nil, err
	}
	settings, pool := o, (*Pool)(nil)
	if given, ok := o["pool"].(*Pool); ok {
		settings, pool = maps.Clone(o), given
		delete(settings, "pool")
	}
	text, err := toJSON("options", settings)
	if err != nil {
		return 0, nil, err
	}
	if err := call(func(f *swig.Error) int32 { return swig.Prefix_options_create(&raw, f) }); err != nil {
		return 0, nil, err
	}
	if err := call(func(f *swig.Error) int32 { return swig.Prefix_options_set_json(raw, text, f) }); err != nil {
		swig.Prefix_options_release(raw)
		return 0, nil, err
	}
	if pool != nil {
		if err := pool.giveTo(raw); err != nil {
			swig.Prefix_options_release(raw)
			return 0, nil, err
		}
	}
	return raw, func() { swig.Prefix_options_release(raw) }, nil
}

// with is the options with one more; a map that a caller holds stays as it is.
func (o Options) with(key string, value any) Options {
	more := Options{key: value}
	for name, other := range o {
		if name != key {
			more[name] = other
		}
	}
	return more
}

// biases as the library takes them: 464:-100,11:2.5.
func biases(of map[Token]float64) string {
	items := make([]string, 0, len(of))
	for _, token := range slices.Sorted(maps.Keys(of)) {
		items = append(items, fmt.Sprintf("%d:%v", token, of[token]))
	}
	return strings.Join(items, ",")
}

// milliseconds of a limit: 0 stands for none, so a time below one is 1. A negative time is -1, which is refused.
func milliseconds(limit time.Duration) int64 {
	switch {
	case limit < 0:
		return -1
	case limit == 0:
		return 0
	}
	return max(1, limit.Milliseconds())
}

// checkTimes refuses durations: JSON has them as numbers of nanoseconds, and the library takes milliseconds.
func (o Options) checkTimes() error {
	for key, value := range o {
		if _, ok := value.(time.Duration); !ok {
			continue
		}
		instead := "give a number"
		if method, ok := timeMethods[key]; ok {
			instead = fmt.Sprintf("use the method %s, or give a number of milliseconds", method)
		}
		return &Error{Status: ErrInvalidArgument, Message: fmt.Sprintf(
			"options: %s is %v, a time.Duration; %s", key, value, instead)}
	}
	return nil
}

// Check says what is wrong with the options: an unknown name, a value outside its limits.
func (o Options) Check() error {
	_, release, err := o.native()
	if err == nil {
		release()
	}
	return err
}

// Get is the value in force, as text: the default when the options do not have it.
func (o Options) Get(key string) (string, error) {
	raw, release, err := o.native()
	if err != nil {
		return "", err
	}
	if raw == 0 {
		if err := call(func(f *swig.Error) int32 { return swig.Prefix_options_create(&raw, f) }); err != nil {
			return "", err
		}
		release = func() { swig.Prefix_options_release(raw) }
	}
	defer release()
	return getText(64, func(b []byte, needed *uintptr, f *swig.Error) int32 {
		return swig.Prefix_options_get(raw, key, b, needed, f)
	})
}

// OptionType is the type of an option's value.
type OptionType int32

// The types of options.
const (
	OptionInt        OptionType = swig.PREFIX_OPTION_INT
	OptionFloat      OptionType = swig.PREFIX_OPTION_FLOAT
	OptionBool       OptionType = swig.PREFIX_OPTION_BOOL
	OptionString     OptionType = swig.PREFIX_OPTION_STRING
	OptionIntList    OptionType = swig.PREFIX_OPTION_INT_LIST
	OptionStringList OptionType = swig.PREFIX_OPTION_STRING_LIST
)

func (t OptionType) String() string {
	return nameOf(int32(t), "OptionType", "int", "float", "bool", "string", "int list", "string list")
}

// Scope is where an option belongs.
type Scope int32

// The scopes of options.
const (
	ScopeEngine    Scope = swig.PREFIX_SCOPE_ENGINE
	ScopeRequest   Scope = swig.PREFIX_SCOPE_REQUEST // requests of every kind
	ScopeGenerate  Scope = swig.PREFIX_SCOPE_GENERATE
	ScopeEmbedding Scope = swig.PREFIX_SCOPE_EMBEDDING
	ScopeTask      Scope = swig.PREFIX_SCOPE_TASK // which take those of their requests too
)

func (s Scope) String() string {
	return nameOf(int32(s), "Scope", "engine", "request", "generate", "embedding", "task")
}

// OptionInfo describes an option.
type OptionInfo struct {
	Key              string
	Type             OptionType
	Scope            Scope
	Minimum, Maximum float64  // of numbers
	Default          string   // as text
	Values           []string // all there are; nil when the text is free
	Doc              string
}

// OptionInfos lists every option of the library.
func OptionInfos() ([]OptionInfo, error) {
	infos := make([]OptionInfo, swig.Prefix_option_count())
	for i := range infos {
		raw := swig.OptionDetails{StructSize: swig.SizeofOptionDetails}
		if err := call(func(f *swig.Error) int32 { return swig.Prefix_option_info(uintptr(i), &raw, f) }); err != nil {
			return nil, err
		}
		infos[i] = OptionInfo{
			Key: swig.Text(raw.Key), Type: OptionType(raw.Type), Scope: Scope(raw.Scope), Minimum: raw.Minimum,
			Maximum: raw.Maximum, Default: swig.Text(raw.DefaultValue), Doc: swig.Text(raw.Doc),
		}
		if values := swig.Text(raw.Values); values != "" {
			infos[i].Values = strings.Split(values, "|")
		}
	}
	return infos, nil
}

// nameOf is the name of a number that counts from 0.
func nameOf(number int32, kind string, names ...string) string {
	if number >= 0 && int(number) < len(names) {
		return names[number]
	}
	return fmt.Sprintf("%s(%d)", kind, number)
}
