//! What stands between the marker of a call and its end, whatever it is written in.

use super::call::Call;
use super::format::{Body, Format};
use super::part::Asked;
use super::scan::Step;
use super::{call, python, scan, tags};

/// Finds where a body ends, byte by byte.
#[derive(Debug)]
pub enum Scan {
    Json(scan::Scan),
    Tags(tags::Scan),
    Python(python::Scan),
}

impl Scan {
    pub fn of(format: &Format) -> Scan {
        match format.body {
            Body::Json => Scan::Json(scan::Scan::default()),
            Body::Tags => Scan::Tags(tags::Scan::default()),
            Body::Python => Scan::Python(python::Scan::new(format.is_list)),
        }
    }

    pub fn push(&mut self, byte: u8) -> Step {
        match self {
            Scan::Json(scan) => scan.push(byte),
            Scan::Tags(scan) => scan.push(byte),
            Scan::Python(scan) => scan.push(byte),
        }
    }

    /// How many bytes, if the body is none, are text that is not looked at again.
    pub fn settled(&self) -> usize {
        match self {
            Scan::Tags(scan) => scan.settled(),
            Scan::Json(_) | Scan::Python(_) => 0,
        }
    }
}

/// What an unmarked body begins with.
pub fn opening(format: &Format) -> char {
    match format.is_list {
        true => '[',
        false => '{',
    }
}

/// A beginning of a body that is in no other text, for models that leave out the marker.
pub fn own_marker(format: &Format) -> Option<&'static str> {
    (format.body == Body::Tags).then_some(tags::FUNCTION)
}

/// The calls of a body that is whole; none when one of them is not a call of a function that is known.
pub fn calls(body: &str, asked: &Asked) -> Option<Vec<Call>> {
    match asked.format.body {
        Body::Json => call::of_json(body, asked),
        Body::Tags => tags::call(body, asked).map(|call| vec![call]),
        Body::Python => python::calls(body, asked),
    }
}
