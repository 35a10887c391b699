//! What an answer must look like, as the engine asks for it.

use crate::constraint::{Compiled, Following};
use crate::engine::{Constrains, Constraint, Engine, Steps};
use crate::error::Result;
use std::sync::{Arc, Mutex, MutexGuard};

pub struct Constrained {
    pub constraint: Constraint,
    told: Arc<Told>,
}

/// Why texts ended in error: the engine knows a number.
#[derive(Default)]
struct Told(Mutex<String>);

impl Told {
    fn lock(&self) -> MutexGuard<'_, String> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

struct Grammar {
    compiled: Compiled,
    told: Arc<Told>,
}

struct Writing {
    following: Following,
    told: Arc<Told>,
}

impl Constrained {
    pub fn new(engine: &Engine, compiled: Compiled) -> Result<Constrained> {
        let told = Arc::new(Told::default());
        let grammar = Grammar {
            compiled,
            told: told.clone(),
        };
        Ok(Constrained {
            constraint: engine.constraint(Arc::new(grammar))?,
            told,
        })
    }

    /// The last reason why a text could not go on; empty when there was none.
    pub fn reason(&self) -> String {
        self.told.lock().clone()
    }
}

impl Constrains for Grammar {
    fn begin(&self) -> Box<dyn Steps> {
        Box::new(Writing {
            following: self.compiled.begin(),
            told: self.told.clone(),
        })
    }
}

impl Writing {
    fn tell(&self, result: std::result::Result<(), String>) -> bool {
        match result {
            Ok(()) => true,
            Err(why) => {
                *self.told.lock() = why;
                false
            }
        }
    }
}

impl Steps for Writing {
    fn allow(&mut self, mask: &mut [u32]) -> bool {
        let allowed = self.following.allow(mask);
        self.tell(allowed)
    }

    fn accept(&mut self, token: i32) -> bool {
        let accepted = self.following.accept(token as u32);
        self.tell(accepted)
    }
}
