//! Arguments as Python passes them: by position or by name.

use minijinja::value::{Kwargs, Rest};
use minijinja::{Error, ErrorKind, Value};

pub struct Arguments {
    positions: Rest<Value>,
    named: Kwargs,
}

impl Arguments {
    pub fn new(positions: Rest<Value>, named: Kwargs, most: usize) -> Result<Self, Error> {
        if positions.len() > most {
            return Err(Error::from(ErrorKind::TooManyArguments));
        }
        Ok(Arguments { positions, named })
    }

    /// None when it is left out.
    pub fn value(&self, position: usize, name: &str) -> Result<Option<Value>, Error> {
        match self.positions.get(position) {
            Some(value) => Ok(Some(value.clone())),
            None => self.named.get::<Option<Value>>(name),
        }
    }

    /// None when it is left out or none.
    pub fn get(&self, position: usize, name: &str) -> Result<Option<Value>, Error> {
        let given = self.value(position, name)?;
        Ok(given.filter(|v| !v.is_none() && !v.is_undefined()))
    }

    pub fn flag(&self, position: usize, name: &str) -> Result<bool, Error> {
        Ok(self.get(position, name)?.is_some_and(|v| v.is_true()))
    }

    pub fn number(&self, position: usize, name: &str, default: i64) -> Result<i64, Error> {
        self.get(position, name)?.map_or(Ok(default), i64::try_from)
    }

    pub fn text(&self, position: usize, name: &str, default: &str) -> Result<String, Error> {
        match self.get(position, name)? {
            None => Ok(default.to_string()),
            Some(value) => value.as_str().map(str::to_string).ok_or_else(|| {
                Error::new(
                    ErrorKind::InvalidOperation,
                    format!("{name} is {}, not a text", value.kind()),
                )
            }),
        }
    }

    /// Refuses names that no parameter has.
    pub fn end(self) -> Result<(), Error> {
        self.named.assert_all_used()
    }
}
