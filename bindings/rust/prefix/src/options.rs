//! Options of engines, requests and tasks, by name.

use std::sync::OnceLock;

use prefix_sys as sys;
use prefix_sys::Init;

use crate::error::{call, static_text, Result};
use crate::raw::{read_text, Handle, TextRefs};
use crate::{library, Token};

/// Settings for an engine, for requests or for tasks; the library lists them all ([`option_infos`]).
///
/// A value is checked when it is set. An option that would have no effect where the `Options` are given, such as
/// `max_tokens` for an engine, is refused there. Threads may share one, as in an `Arc`.
///
/// ```no_run
/// # fn main() -> prefix::Result<()> {
/// let options = prefix::Options::builder().threads(4).isa("avx2").build()?;
/// let engine = prefix::Engine::open_with("model.gguf", &options)?;
/// let by_name = prefix::Options::new()?.set("threads", 4)?.set("cache_bytes", "2G")?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Options {
    handle: Handle<sys::prefix_options>,
}

// Safety: the header lets any thread call every function of options at any time.
unsafe impl Sync for Options {}

impl Options {
    /// No option set.
    pub fn new() -> Result<Options> {
        library::ready()?;
        // Safety: `out` and `err` are valid for the call.
        let handle = Handle::create(|out, err| unsafe { sys::prefix_options_create(out, err) })?;
        Ok(Options { handle })
    }

    /// Options by methods, one for each option of the library.
    pub fn builder() -> OptionsBuilder {
        OptionsBuilder(Options::new())
    }

    /// Sets one option, for instance `.set("max_tokens", 8)?.set("stop_tokens", &[2, 7])?`. Of one that takes several
    /// texts, one is enough.
    pub fn set<'v>(mut self, key: &str, value: impl Into<Value<'v>>) -> Result<Options> {
        self.put(key, value)?;
        Ok(self)
    }

    /// [`set`](Options::set) by reference.
    pub fn put<'v>(&mut self, key: &str, value: impl Into<Value<'v>>) -> Result<()> {
        let (handle, name, length) = (self.handle.get(), key.as_ptr().cast(), key.len());
        let value = match value.into() {
            Value::Text(text) if takes_texts(key) => Value::Texts(vec![text]),
            value => value,
        };
        // Safety, for all arms: a live handle, and texts and arrays with their lengths.
        match value {
            Value::Int(number) => call(|err| unsafe {
                sys::prefix_options_set_int(handle, name, length, number, err)
            }),
            Value::Float(number) => call(|err| unsafe {
                sys::prefix_options_set_double(handle, name, length, number, err)
            }),
            Value::Bool(on) => call(|err| unsafe {
                sys::prefix_options_set_bool(handle, name, length, on.into(), err)
            }),
            Value::Text(text) => call(|err| unsafe {
                sys::prefix_options_set(handle, name, length, text.as_ptr().cast(), text.len(), err)
            }),
            Value::Ints(list) => call(|err| unsafe {
                let (start, count) = (list.as_ptr(), list.len());
                sys::prefix_options_set_ints(handle, name, length, start, count, err)
            }),
            Value::Texts(texts) => {
                let texts = TextRefs::new(&texts);
                let (starts, lengths) = (texts.starts.as_ptr(), texts.lengths.as_ptr());
                call(|err| unsafe {
                    sys::prefix_options_set_texts(
                        handle,
                        name,
                        length,
                        starts,
                        lengths,
                        texts.len(),
                        err,
                    )
                })
            }
        }
    }

    /// Merges a JSON object, all of it or nothing.
    pub fn set_json(self, json: &str) -> Result<Options> {
        // Safety: a text with its length; self is owned.
        call(|err| unsafe {
            sys::prefix_options_set_json(self.handle.get(), json.as_ptr().cast(), json.len(), err)
        })?;
        Ok(self)
    }

    /// The value in force, as text: the default when it was never set.
    pub fn get(&self, key: &str) -> Result<String> {
        // Safety: a text with its length and a buffer with its capacity.
        read_text(64, |buf, cap, needed, err| unsafe {
            sys::prefix_options_get(
                self.raw(),
                key.as_ptr().cast(),
                key.len(),
                buf,
                cap,
                needed,
                err,
            )
        })
    }

    /// What was set, as [`set_json`](Options::set_json) takes it.
    pub fn json(&self) -> Result<String> {
        // Safety: a buffer with its capacity.
        read_text(256, |buf, cap, needed, err| unsafe {
            sys::prefix_options_json(self.raw(), buf, cap, needed, err)
        })
    }

    pub(crate) fn raw(&self) -> *mut sys::prefix_options {
        self.handle.get()
    }
}

/// Options that are being set, each by a method of its own; made by [`Options::builder`]. What is wrong with a value is
/// told by [`build`](OptionsBuilder::build).
#[derive(Debug)]
#[must_use = "options are there when they are built"]
pub struct OptionsBuilder(Result<Options>);

impl OptionsBuilder {
    pub(crate) fn with<'v>(self, key: &str, value: impl Into<Value<'v>>) -> OptionsBuilder {
        self.and_then(|options| options.set(key, value))
    }

    pub(crate) fn and_then(self, set: impl FnOnce(Options) -> Result<Options>) -> OptionsBuilder {
        OptionsBuilder(self.0.and_then(set))
    }

    /// The options, or the error of the first value that is refused.
    pub fn build(self) -> Result<Options> {
        self.0
    }
}

/// As the library takes them: 464:-100,11:2.5.
pub(crate) fn biases(list: &[(Token, f64)]) -> String {
    let items: Vec<String> = list
        .iter()
        .map(|(token, bias)| format!("{token}:{bias}"))
        .collect();
    items.join(",")
}

/// NULL stands for the defaults.
pub(crate) fn raw_or_null(options: Option<&Options>) -> *const sys::prefix_options {
    options.map_or(std::ptr::null(), |options| options.raw())
}

/// A value of an option; made from numbers, `bool`, text and lists of `i32` or of texts by `into()`.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'v> {
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// Yes or no.
    Bool(bool),
    /// Text; sizes take the suffixes K, M, G.
    Text(&'v str),
    /// A list of whole numbers.
    Ints(&'v [i32]),
    /// A list of texts.
    Texts(Vec<&'v str>),
}

macro_rules! values {
    ($($type:ty => |$value:ident| $make:expr,)*) => {$(
        impl<'v> From<$type> for Value<'v> {
            fn from($value: $type) -> Self {
                $make
            }
        }
    )*};
}
values! {
    i32 => |n| Value::Int(n.into()),
    u32 => |n| Value::Int(n.into()),
    i64 => |n| Value::Int(n),
    usize => |n| Value::Int(i64::try_from(n).unwrap_or(i64::MAX)),
    f32 => |x| Value::Float(x.into()),
    f64 => |x| Value::Float(x),
    bool => |on| Value::Bool(on),
    &'v str => |text| Value::Text(text),
    &'v String => |text| Value::Text(text),
    &'v [i32] => |list| Value::Ints(list),
    &'v Vec<i32> => |list| Value::Ints(list),
    &'v [&'v str] => |list| Value::Texts(list.to_vec()),
    &'v Vec<&'v str> => |list| Value::Texts(list.clone()),
    &'v [String] => |list| Value::Texts(list.iter().map(String::as_str).collect()),
    &'v Vec<String> => |list| Value::from(list.as_slice()),
}

impl<'v, const N: usize> From<&'v [i32; N]> for Value<'v> {
    fn from(list: &'v [i32; N]) -> Self {
        Value::Ints(list)
    }
}

impl<'v, const N: usize> From<&'v [&'v str; N]> for Value<'v> {
    fn from(list: &'v [&'v str; N]) -> Self {
        Value::from(list.as_slice())
    }
}

/// What kind of value an option takes.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionType {
    /// A whole number.
    Int,
    /// A number.
    Float,
    /// `true` or `false`.
    Bool,
    /// Text, or one of some names.
    Text,
    /// Whole numbers, as `1,2,3`.
    Ints,
    /// Texts, as a JSON array.
    Texts,
    /// A kind that is newer than this crate.
    Other(i32),
}

/// Who takes an option.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Engines.
    Engine,
    /// Requests of every kind.
    Request,
    /// Requests that generate.
    Generate,
    /// Requests for embeddings.
    Embedding,
    /// Tasks, which take those of their requests too.
    Task,
    /// A scope that is newer than this crate.
    Other(i32),
}

/// One option, as the library describes it.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq)]
pub struct OptionInfo {
    /// Its name.
    pub key: &'static str,
    /// What it takes.
    pub kind: OptionType,
    /// Who takes it.
    pub scope: Scope,
    /// Least and greatest number.
    pub range: (f64, f64),
    /// The default, as text.
    pub default: &'static str,
    /// `a|b|c`, or "" for free text.
    pub values: &'static str,
    /// One sentence.
    pub doc: &'static str,
}

/// Every option there is.
pub fn option_infos() -> Result<Vec<OptionInfo>> {
    library::ready()?;
    // Safety: no precondition.
    let count = unsafe { sys::prefix_option_count() };
    (0..count).map(option_info).collect()
}

/// Of options that take several texts, as `stop`: one text alone is a list of one, whatever it looks like.
fn takes_texts(key: &str) -> bool {
    static KEYS: OnceLock<Vec<&str>> = OnceLock::new();
    let of_texts = |info: &OptionInfo| info.kind == OptionType::Texts;
    let keys = || {
        let infos = option_infos().unwrap_or_default().into_iter();
        infos.filter(of_texts).map(|info| info.key).collect()
    };
    KEYS.get_or_init(keys).contains(&key)
}

fn option_info(index: usize) -> Result<OptionInfo> {
    let mut c = sys::prefix_option_details::init();
    // Safety: a struct with its size.
    call(|err| unsafe { sys::prefix_option_info(index, &mut c, err) })?;
    Ok(OptionInfo {
        key: static_text(c.key),
        kind: match c.type_ {
            sys::PREFIX_OPTION_INT => OptionType::Int,
            sys::PREFIX_OPTION_FLOAT => OptionType::Float,
            sys::PREFIX_OPTION_BOOL => OptionType::Bool,
            sys::PREFIX_OPTION_STRING => OptionType::Text,
            sys::PREFIX_OPTION_INT_LIST => OptionType::Ints,
            sys::PREFIX_OPTION_STRING_LIST => OptionType::Texts,
            other => OptionType::Other(other),
        },
        scope: match c.scope {
            sys::PREFIX_SCOPE_ENGINE => Scope::Engine,
            sys::PREFIX_SCOPE_REQUEST => Scope::Request,
            sys::PREFIX_SCOPE_GENERATE => Scope::Generate,
            sys::PREFIX_SCOPE_EMBEDDING => Scope::Embedding,
            sys::PREFIX_SCOPE_TASK => Scope::Task,
            other => Scope::Other(other),
        },
        range: (c.minimum, c.maximum),
        default: static_text(c.default_value),
        values: static_text(c.values),
        doc: static_text(c.doc),
    })
}
