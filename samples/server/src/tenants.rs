//! Who asks: the key of a request, and the namespace of the cache that belongs to it.
//!
//! A prefix that one tenant has computed must not be found by another, since the time of an answer would tell that it
//! was there. So each key has a namespace of its own. Its name is a hash: neither the tree nor the events show keys.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::header::AUTHORIZATION;
use axum::http::HeaderMap;
use prefix::Engine;
use sha2::{Digest, Sha256};

use crate::failure::{Failure, Kind, Result};

/// A namespace that is kept open as long as somebody has this.
#[derive(Debug)]
pub struct Tenant {
    /// For the option `namespace_id`.
    pub namespace: i32,
    parts: Vec<String>,
}

/// The namespaces that are open. Those used longest ago are closed when there are too many: keys are not checked
/// unless a list of them was given, so their number has no limit but this one.
#[derive(Debug)]
pub struct Tenants {
    keys: Option<HashSet<String>>,
    limit: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    clock: u64,
    /// By the parts of their names, with the time of their last use.
    tenants: HashMap<Vec<String>, (Arc<Tenant>, u64)>,
}

impl Tenants {
    /// With a list of keys, others are refused.
    pub fn new(keys: Option<HashSet<String>>, limit: usize) -> Tenants {
        let open = Mutex::default();
        Tenants { keys, limit, open }
    }

    /// The key that a request brings; refused when a list of keys was given and does not have it.
    pub fn key(&self, headers: &HeaderMap) -> Result<Option<String>> {
        let header = headers.get(AUTHORIZATION);
        let header = header.map(|value| std::str::from_utf8(value.as_bytes()));
        // Passed over, its owner would share with everybody who brings none.
        let header = header.transpose().map_err(|_| {
            let message = "the header \"Authorization\" is not text in UTF-8";
            Failure::new(Kind::Unauthorized, message)
        })?;
        let header = header.map_or("", str::trim);
        let (scheme, bearer) = header.split_once(' ').unwrap_or((header, ""));
        let bearer = scheme
            .eq_ignore_ascii_case("bearer")
            .then_some(bearer.trim());
        if let Some(keys) = &self.keys {
            let message = match bearer {
                Some(key) if keys.contains(key) => return Ok(Some(key.to_string())),
                Some(key) if !key.is_empty() => "this key is not known",
                _ => "a key is needed, as in \"Authorization: Bearer KEY\"",
            };
            return Err(Failure::new(Kind::Unauthorized, message));
        }
        // What another scheme brings tells one caller from another as well as a key does.
        let key = bearer.unwrap_or(header);
        Ok((!key.is_empty()).then(|| key.to_string()))
    }

    /// The namespace of a key, and of a salt that the request brings besides. `None` stands for the one that requests
    /// without either share.
    pub fn namespace(
        &self,
        engine: &Engine,
        key: Option<&str>,
        salt: Option<&str>,
    ) -> Result<Option<Arc<Tenant>>> {
        if key.is_none() && salt.is_none() {
            return Ok(None);
        }
        let mut parts = vec![key.map_or_else(|| "anyone".into(), |key| hash("key", key))];
        parts.extend(salt.map(|salt| hash("salt", salt)));
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.clock += 1;
        let now = open.clock;
        if let Some((tenant, used)) = open.tenants.get_mut(&parts) {
            *used = now;
            return Ok(Some(tenant.clone()));
        }
        while open.tenants.len() >= self.limit {
            if !open.close_oldest(engine) {
                let message = format!("{} tenants have requests that run", self.limit);
                return Err(Failure::new(Kind::Overloaded, message));
            }
        }
        let namespace = engine.namespace_of(&parts)?.id();
        let tenant = Arc::new(Tenant { namespace, parts });
        let entry = (tenant.clone(), now);
        open.tenants.insert(tenant.parts.clone(), entry);
        Ok(Some(tenant))
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.tenants.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Open {
    /// False when all are in use.
    fn close_oldest(&mut self, engine: &Engine) -> bool {
        let idle = self
            .tenants
            .values()
            .filter(|(tenant, _)| Arc::strong_count(tenant) == 1);
        let Some(parts) = idle
            .min_by_key(|(_, used)| *used)
            .map(|(tenant, _)| tenant.parts.clone())
        else {
            return false;
        };
        self.tenants.remove(&parts);
        if let Ok(namespace) = engine.namespace_of(&parts) {
            // What it held is gone either way when memory is short.
            let _ = namespace.close();
        }
        true
    }
}

fn hash(kind: &str, text: &str) -> String {
    let digest = Sha256::digest(format!("prefix-server {kind}\0{text}"));
    digest
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
