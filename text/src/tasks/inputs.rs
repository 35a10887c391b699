//! What a caller gives to a task.
//!
//! ```text
//!   texts    q0  d0  q1  d1 | q2  q3  d2  d3  d4 | ...
//!            \_____________/  \________________/
//!   groups   a list:          a product: items (q2,d2) (q2,d3) (q2,d4) (q3,d2) ...
//!            (q0,d0) (q1,d1)
//!
//!   with option samples, 3 of each:   prompt  0 0 0 1 1 1 ...
//!                                     item    0 1 2 3 4 5 ...
//! ```

use super::kind::Kind;
use crate::error::{Code, Error, Result};

/// Most items of a task: lists of empty texts cost nothing, their product does.
const MAX_ITEMS: usize = 1 << 24;

/// Texts of the caller; bytes that are no UTF-8 fail alone, so they are kept as they came.
#[derive(Default)]
pub struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Texts {
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// All of them, or none where there is no memory.
    pub fn add(&mut self, texts: &[&[u8]]) -> Result<()> {
        let bytes = texts.iter().map(|text| text.len()).sum();
        if self.bytes.try_reserve(bytes).is_err() || self.ends.try_reserve(texts.len()).is_err() {
            return Err(Error::new(
                Code::OutOfMemory,
                format!("there is no memory for {bytes} bytes of texts"),
            ));
        }
        for text in texts {
            self.bytes.extend_from_slice(text);
            self.ends.push(self.bytes.len());
        }
        Ok(())
    }

    fn bytes(&self, index: usize) -> &[u8] {
        let begin = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[begin..self.ends[index]]
    }

    fn get(&self, index: usize, what: &str) -> Result<&str> {
        std::str::from_utf8(self.bytes(index)).map_err(|e| {
            Error::new(
                Code::InvalidUtf8,
                format!("the {what} is not UTF-8 from byte {} on", e.valid_up_to()),
            )
        })
    }
}

/// What was added by one call.
struct Group {
    /// Number of its first prompt.
    start: usize,
    /// Number of its first text.
    texts: usize,
    user_tag: i64,
    form: Form,
}

#[derive(Clone, Copy)]
enum Form {
    List,
    /// Every second text with every first one.
    Product {
        firsts: usize,
        seconds: usize,
    },
}

pub struct Inputs {
    pub kind: &'static Kind,
    /// Of classify, and which outputs of a classification head they are.
    pub labels: Vec<String>,
    pub places: Vec<usize>,
    texts: Texts,
    groups: Vec<Group>,
    /// Texts, or pairs of them, each of which is asked about once or more.
    prompts: usize,
    /// Items of each prompt.
    samples: usize,
}

impl Inputs {
    pub fn new(kind: &'static Kind, samples: usize) -> Inputs {
        Inputs {
            kind,
            samples,
            labels: Vec::new(),
            places: Vec::new(),
            texts: Texts::default(),
            groups: Vec::new(),
            prompts: 0,
        }
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.prompts * self.samples
    }

    /// The prompt that an item is a sample of: all samples of it are asked for with the same tokens.
    pub fn prompt(&self, item: usize) -> usize {
        item / self.samples
    }

    /// Which sample of its prompt an item is.
    pub fn sample(&self, item: usize) -> usize {
        item % self.samples
    }

    /// Items of as many texts as the kind wants, one after the other; the number of the first.
    pub fn add(&mut self, texts: &[&[u8]], user_tag: i64) -> Result<usize> {
        let (width, kind) = (self.kind.texts.len(), self.kind.name);
        if !texts.len().is_multiple_of(width) {
            return Err(Error::argument(format!(
                "{} texts do not make whole items; one of {kind} has {width}: {}",
                texts.len(),
                self.kind.text_names()
            )));
        }
        self.put(texts, &[], Form::List, texts.len() / width, user_tag)
    }

    /// An item for every second text with every first one; the number of the first.
    pub fn add_product(
        &mut self,
        firsts: &[&[u8]],
        seconds: &[&[u8]],
        user_tag: i64,
    ) -> Result<usize> {
        if self.kind.texts.len() != 2 {
            return Err(Error::new(
                Code::Misuse,
                format!(
                    "an item of {} has one text; there is no product",
                    self.kind.name
                ),
            ));
        }
        let form = Form::Product {
            firsts: firsts.len(),
            seconds: seconds.len(),
        };
        let items = firsts.len().saturating_mul(seconds.len());
        self.put(firsts, seconds, form, items, user_tag)
    }

    fn put(
        &mut self,
        firsts: &[&[u8]],
        seconds: &[&[u8]],
        form: Form,
        prompts: usize,
        user_tag: i64,
    ) -> Result<usize> {
        let first = self.len();
        let items = prompts.saturating_mul(self.samples);
        if items > MAX_ITEMS - first {
            return Err(Error::range(format!(
                "{items} more items than the {first} that the task has; the limit is {MAX_ITEMS}"
            )));
        }
        let group = Group {
            start: self.prompts,
            texts: self.texts.len(),
            user_tag,
            form,
        };
        if self.groups.try_reserve(1).is_err() {
            return Err(Error::new(
                Code::OutOfMemory,
                "there is no memory for more items",
            ));
        }
        if items > 0 {
            let (texts, bytes) = (self.texts.ends.len(), self.texts.bytes.len());
            self.texts.add(firsts)?;
            if let Err(error) = self.texts.add(seconds) {
                self.texts.ends.truncate(texts);
                self.texts.bytes.truncate(bytes);
                return Err(error);
            }
            self.groups.push(group);
        }
        self.prompts += prompts;
        Ok(first)
    }

    /// That of a prompt.
    fn group(&self, prompt: usize) -> &Group {
        let after = self.groups.partition_point(|group| group.start <= prompt);
        &self.groups[after - 1]
    }

    pub fn user_tag(&self, item: usize) -> i64 {
        self.group(self.prompt(item)).user_tag
    }

    /// Where the texts of an item are, one or two.
    fn places(&self, item: usize) -> [usize; 2] {
        let prompt = self.prompt(item);
        let group = self.group(prompt);
        let at = prompt - group.start;
        match group.form {
            Form::List => {
                let first = group.texts + at * self.kind.texts.len();
                [first, first + 1]
            }
            Form::Product { firsts, seconds } => [
                group.texts + at / seconds,
                group.texts + firsts + at % seconds,
            ],
        }
    }

    /// The first text of an item.
    pub fn first(&self, item: usize) -> Result<&str> {
        self.texts
            .get(self.places(item)[0], self.kind.texts[0].name)
    }

    /// The texts of an item, one or two.
    pub fn texts(&self, item: usize) -> Result<[&str; 2]> {
        let (places, names) = (self.places(item), self.kind.texts);
        let first = self.first(item)?;
        let second = match names.get(1) {
            Some(text) => self.texts.get(places[1], text.name)?,
            None => "",
        };
        Ok([first, second])
    }

    /// The item behind those that follow `first` and have its first text.
    pub fn end_of_list(&self, first: usize) -> usize {
        let text = self.first_text(first);
        let is_other = |item: &usize| self.first_text(*item) != text;
        (first..self.len()).find(is_other).unwrap_or(self.len())
    }

    fn first_text(&self, item: usize) -> &[u8] {
        self.texts.bytes(self.places(item)[0])
    }

    /// The item at a place in the order of work, in which items that share most follow each other:
    /// those of a prompt, and those of a second text, where it stands first in the prompt (`second_first`).
    pub fn in_order_of_work(&self, at: usize, second_first: bool) -> usize {
        let (place, sample) = (self.prompt(at), self.sample(at));
        let group = self.group(place);
        let prompt = match group.form {
            Form::Product { firsts, seconds } if second_first => {
                let at = place - group.start;
                group.start + (at % firsts) * seconds + at / firsts
            }
            _ => place,
        };
        prompt * self.samples + sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::{embed, generate, rerank};

    fn bytes<const N: usize>(texts: [&str; N]) -> [&[u8]; N] {
        texts.map(str::as_bytes)
    }

    #[test]
    fn items_of_lists_and_products_have_their_texts_and_tags() {
        let mut inputs = Inputs::new(&rerank::KIND, 1);
        assert_eq!(inputs.add(&bytes(["q", "d", "r", "e"]), 7).unwrap(), 0);
        assert_eq!(inputs.add_product(&[], &bytes(["x"]), 5).unwrap(), 2);
        let (firsts, seconds) = (bytes(["a", "b"]), bytes(["1", "2", "3"]));
        assert_eq!(inputs.add_product(&firsts, &seconds, 8).unwrap(), 2);
        assert_eq!(inputs.add(&bytes(["s", "f"]), 9).unwrap(), 8);
        assert_eq!(inputs.len(), 9);
        let texts: Vec<_> = (0..9).map(|i| inputs.texts(i).unwrap().concat()).collect();
        assert_eq!(
            texts,
            ["qd", "re", "a1", "a2", "a3", "b1", "b2", "b3", "sf"]
        );
        let tags: Vec<_> = (0..9).map(|i| inputs.user_tag(i)).collect();
        assert_eq!(tags, [7, 7, 8, 8, 8, 8, 8, 8, 9]);
        let order =
            |second| -> Vec<_> { (0..9).map(|i| inputs.in_order_of_work(i, second)).collect() };
        assert_eq!(order(false), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(order(true), [0, 1, 2, 5, 3, 6, 4, 7, 8]);
        let ends: Vec<_> = (0..9).map(|i| inputs.end_of_list(i)).collect();
        assert_eq!(ends, [1, 2, 5, 5, 5, 8, 8, 8, 9]);
    }

    #[test]
    fn samples_of_a_prompt_stand_side_by_side() {
        let mut inputs = Inputs::new(&generate::ANSWER, 3);
        assert_eq!(inputs.add(&bytes(["c", "0"]), 7).unwrap(), 0);
        let (firsts, seconds) = (bytes(["a", "b"]), bytes(["1", "2"]));
        assert_eq!(inputs.add_product(&firsts, &seconds, 8).unwrap(), 3);
        assert_eq!(inputs.len(), 15);
        let of = |item: usize| (inputs.texts(item).unwrap().concat(), inputs.sample(item));
        for item in 0..15 {
            let text = ["c0", "a1", "a2", "b1", "b2"][item / 3];
            assert_eq!(of(item), (text.to_string(), item % 3));
            assert_eq!(inputs.prompt(item), item / 3);
            assert_eq!(inputs.user_tag(item), if item < 3 { 7 } else { 8 });
        }
        let order: Vec<_> = (0..15).map(|i| inputs.in_order_of_work(i, true)).collect();
        assert_eq!(order, [0, 1, 2, 3, 4, 5, 9, 10, 11, 6, 7, 8, 12, 13, 14]);
    }

    #[test]
    fn samples_count_among_the_items_of_a_task() {
        let mut inputs = Inputs::new(&generate::GENERATE, 1024);
        let prompts = vec![&b""[..]; MAX_ITEMS / 1024];
        assert_eq!(inputs.add(&prompts[1..], 0).unwrap(), 0);
        let error = inputs.add(&bytes(["a", "b"]), 0).unwrap_err();
        assert_eq!(error.code, Code::OutOfRange);
        for number in ["2048", "16776192", "16777216"] {
            assert!(error.message.contains(number), "{error}");
        }
        assert_eq!(inputs.add(&bytes(["a"]), 0).unwrap(), MAX_ITEMS - 1024);
        assert_eq!(inputs.len(), MAX_ITEMS);
    }

    #[test]
    fn what_makes_no_whole_item_or_too_many_changes_nothing() {
        let mut inputs = Inputs::new(&rerank::KIND, 1);
        let error = inputs.add(&bytes(["q", "d", "r"]), 0).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
        assert!(error.message.contains("query, document"), "{error}");
        let many = vec![&b""[..]; 1 << 13];
        let error = inputs.add_product(&many, &many, 0).unwrap_err();
        assert_eq!(error.code, Code::OutOfRange);
        assert_eq!((inputs.len(), inputs.texts.len()), (0, 0));
        assert_eq!(inputs.add(&[b"\xff", b"d"], 0).unwrap(), 0);
        let error = inputs.texts(0).unwrap_err();
        assert_eq!(error.code, Code::InvalidUtf8);
        assert!(error.message.contains("query"), "{error}");

        let mut texts = Inputs::new(&embed::KIND, 1);
        let error = texts.add_product(&many, &many, 0).unwrap_err();
        assert_eq!(error.code, Code::Misuse);
    }
}
