//! Handles as C sees them: numbers in the shape of pointers, looked up in a table. A released or
//! made-up handle is therefore an error and never a crash, and numbers are never used twice.

use crate::detok::Detok;
use crate::error::{Code, Error, Result};
use crate::tasks::Task;
use crate::text::Text;
use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, RwLock};

/// Opaque in C.
#[repr(C)]
pub struct PrefixTokenizer {
    _private: [u8; 0],
}
#[repr(C)]
pub struct PrefixDetok {
    _private: [u8; 0],
}
#[repr(C)]
pub struct PrefixTask {
    _private: [u8; 0],
}

#[derive(Clone)]
enum Object {
    Text(Arc<Text>),
    Detok(Arc<Mutex<Detok>>),
    Task(Arc<Task>),
}

struct Entry {
    object: Object,
    references: usize,
}

struct Table {
    entries: HashMap<usize, Entry>,
    next: usize,
}

// A static without a destructor: nothing runs when the process ends.
static TABLE: RwLock<Option<Table>> = RwLock::new(None);
/// The process that the table belongs to; 0 before the first handle.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// After fork() only the calling thread lives on in the child: locks that others held stay locked
/// for ever. So the child is turned away before any lock is touched.
fn check_fork() -> Result<()> {
    let here = unsafe { libc::getpid() };
    match OWNER.compare_exchange(0, here, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => Ok(()),
        Err(owner) if owner == here => Ok(()),
        Err(_) => Err(Error::new(
            Code::Forked,
            "called in the child of a fork(); open the tokenizer there before the parent does",
        )),
    }
}

fn insert(object: Object) -> Result<usize> {
    check_fork()?;
    let mut guard = TABLE.write().unwrap_or_else(|e| e.into_inner());
    let table = guard.get_or_insert_with(|| Table {
        entries: HashMap::new(),
        next: 1,
    });
    // Like addresses, handles are multiples of 16, so that a mistaken index or flag is no handle.
    let handle = table.next * 16;
    table.next += 1;
    table.entries.insert(
        handle,
        Entry {
            object,
            references: 1,
        },
    );
    Ok(handle)
}

fn find(handle: usize, what: &str) -> Result<Object> {
    if handle == 0 {
        return Err(Error::argument(format!("{what} is NULL")));
    }
    check_fork()?;
    let guard = TABLE.read().unwrap_or_else(|e| e.into_inner());
    guard
        .as_ref()
        .and_then(|t| t.entries.get(&handle))
        .map(|e| e.object.clone())
        .ok_or_else(|| misuse(what))
}

fn misuse(what: &str) -> Error {
    Error::new(
        Code::Misuse,
        format!("{what} was released or never was one"),
    )
}

/// One reference more or less. What was released for the last time comes back, to be freed without
/// the lock: a large vocabulary takes a while.
fn change(
    handle: usize,
    what: &str,
    is_kind: fn(&Object) -> bool,
    up: bool,
) -> Result<Option<Object>> {
    check_fork()?;
    let mut guard = TABLE.write().unwrap_or_else(|e| e.into_inner());
    let table = guard.as_mut().ok_or_else(|| misuse(what))?;
    let entry = table
        .entries
        .get_mut(&handle)
        .filter(|e| is_kind(&e.object))
        .ok_or_else(|| misuse(what))?;
    if up {
        entry.references += 1;
        return Ok(None);
    }
    entry.references -= 1;
    if entry.references > 0 {
        return Ok(None);
    }
    Ok(table.entries.remove(&handle).map(|entry| entry.object))
}

pub fn add_text(text: Text) -> Result<*mut PrefixTokenizer> {
    Ok(insert(Object::Text(Arc::new(text)))? as *mut PrefixTokenizer)
}

pub fn text(handle: *const PrefixTokenizer) -> Result<Arc<Text>> {
    match find(handle as usize, "tokenizer")? {
        Object::Text(text) => Ok(text),
        _ => Err(misuse("tokenizer")),
    }
}

fn retain(handle: usize, what: &str, is_kind: fn(&Object) -> bool) -> Result<()> {
    if handle == 0 {
        return Err(Error::argument(format!("{what} is NULL")));
    }
    change(handle, what, is_kind, true).map(|_| ())
}

pub fn retain_text(handle: *const PrefixTokenizer) -> Result<()> {
    retain(handle as usize, "tokenizer", |o| {
        matches!(o, Object::Text(_))
    })
}

pub fn retain_detok(handle: *const PrefixDetok) -> Result<()> {
    retain(handle as usize, "detok", |o| matches!(o, Object::Detok(_)))
}

pub fn retain_task(handle: *const PrefixTask) -> Result<()> {
    retain(handle as usize, "task", |o| matches!(o, Object::Task(_)))
}

pub fn release_text(handle: *const PrefixTokenizer) {
    let _ = change(
        handle as usize,
        "tokenizer",
        |o| matches!(o, Object::Text(_)),
        false,
    );
}

pub fn add_detok(detok: Detok) -> Result<*mut PrefixDetok> {
    Ok(insert(Object::Detok(Arc::new(Mutex::new(detok))))? as *mut PrefixDetok)
}

/// Runs `body` on a detokeniser, which one thread at a time may use.
pub fn with_detok<T>(
    handle: *const PrefixDetok,
    body: impl FnOnce(&mut Detok) -> Result<T>,
) -> Result<T> {
    let Object::Detok(detok) = find(handle as usize, "detok")? else {
        return Err(misuse("detok"));
    };
    let mut guard = detok.try_lock().map_err(|_| {
        Error::new(
            Code::Misuse,
            "detok is in use by another thread, or an earlier call on it failed badly",
        )
    })?;
    body(&mut guard)
}

pub fn release_detok(handle: *const PrefixDetok) {
    let _ = change(
        handle as usize,
        "detok",
        |o| matches!(o, Object::Detok(_)),
        false,
    );
}

pub fn add_task(task: Task) -> Result<*mut PrefixTask> {
    Ok(insert(Object::Task(Arc::new(task)))? as *mut PrefixTask)
}

pub fn task(handle: *const PrefixTask) -> Result<Arc<Task>> {
    match find(handle as usize, "task")? {
        Object::Task(task) => Ok(task),
        _ => Err(misuse("task")),
    }
}

pub fn release_task(handle: *const PrefixTask) {
    let freed = change(
        handle as usize,
        "task",
        |o| matches!(o, Object::Task(_)),
        false,
    );
    // The thread of tasks holds its work until it sees this.
    if let Ok(Some(Object::Task(task))) = freed {
        task.cancel();
    }
}
