//! `joiner` and `cycler`: what is written changes each time.

use super::arguments::Arguments;
use super::meter::{copied, keep};
use super::show::text_of;
use minijinja::value::{from_args, Kwargs, Object, ObjectRepr, Rest, Tuple};
use minijinja::{Error, ErrorKind, State, Value};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

/// Nothing the first time, the separator from then on.
#[derive(Debug)]
struct Joiner {
    separator: Value,
    used: AtomicBool,
}

impl Object for Joiner {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match key.as_str()? {
            "sep" => Some(self.separator.clone()),
            "used" => Some(Value::from(self.used.load(Ordering::Relaxed))),
            _ => None,
        }
    }

    fn call(self: &Arc<Self>, _state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        from_args::<()>(args)?;
        Ok(match self.used.swap(true, Ordering::Relaxed) {
            true => self.separator.clone(),
            false => Value::from(""),
        })
    }
}

/// `joiner(sep=", ")`.
pub fn joiner(args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let args = Arguments::new(args, kwargs, 1)?;
    let separator = match args.value(0, "sep")? {
        Some(separator) => Value::from(text_of(&separator)?),
        None => Value::from(", "),
    };
    args.end()?;
    Ok(Value::from_object(Joiner {
        separator,
        used: AtomicBool::new(false),
    }))
}

/// One item after the other, and the first again.
#[derive(Debug)]
pub struct Cycler {
    items: Value,
    count: usize,
    at: AtomicUsize,
}

impl Object for Cycler {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let at = self.at.load(Ordering::Relaxed);
        match key.as_str()? {
            "current" => self.items.get_item_by_index(at).ok(),
            "pos" => Some(Value::from(at)),
            "items" => Some(self.items.clone()),
            _ => None,
        }
    }

    fn call_method(
        self: &Arc<Self>,
        _state: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        from_args::<()>(args)?;
        let at = self.at.load(Ordering::Relaxed);
        match method {
            "next" => {
                self.at.store((at + 1) % self.count, Ordering::Relaxed);
                self.items.get_item_by_index(at)
            }
            "reset" => {
                self.at.store(0, Ordering::Relaxed);
                Ok(Value::from(()))
            }
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }
}

/// `cycler(*items)`.
pub fn cycler(items: Rest<Value>) -> Result<Value, Error> {
    let count = items.len();
    if count == 0 {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "cycler() wants at least one item",
        ));
    }
    copied(count)?;
    Ok(Value::from_object(Cycler {
        // No other cycler among them: one inside another could nest as deep as nobody looks.
        items: keep(&Value::from(Tuple::from(items.0)))?,
        count,
        at: AtomicUsize::new(0),
    }))
}
