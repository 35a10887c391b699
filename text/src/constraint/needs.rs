//! What must have something so that others have it.
//!
//! Each place waits for others: for all of them, or for one. A circle of places that wait for each other waits for ever.

#[derive(Default)]
pub struct Needs {
    places: Vec<Place>,
}

struct Place {
    is_any: bool,
    parts: Vec<usize>,
}

impl Needs {
    pub fn all(&mut self, parts: Vec<usize>) -> usize {
        self.add(false, parts)
    }

    pub fn any(&mut self, parts: Vec<usize>) -> usize {
        self.add(true, parts)
    }

    /// Of nothing else: it has it, or never will.
    pub fn fact(&mut self, has: bool) -> usize {
        self.add(!has, Vec::new())
    }

    /// One more for a place to wait for.
    pub fn also(&mut self, place: usize, part: usize) {
        self.places[place].parts.push(part);
    }

    pub fn parts(&self, place: usize) -> &[usize] {
        &self.places[place].parts
    }

    fn add(&mut self, is_any: bool, parts: Vec<usize>) -> usize {
        self.places.push(Place { is_any, parts });
        self.places.len() - 1
    }

    /// Which have it, each looked at once.
    pub fn met(&self) -> Vec<bool> {
        self.spread(|place| match place.is_any {
            true => 1,
            false => place.parts.len(),
        })
    }

    /// Which would not have it even if every circle did.
    pub fn hopeless(&self) -> Vec<bool> {
        self.spread(|place| match place.is_any {
            true => place.parts.len(),
            false => 1,
        })
    }

    /// Which places are reached: those of whose parts so many are.
    fn spread(&self, wanted: impl Fn(&Place) -> usize) -> Vec<bool> {
        let mut missing: Vec<usize> = self.places.iter().map(wanted).collect();
        let mut parents = vec![Vec::new(); self.places.len()];
        for (at, place) in self.places.iter().enumerate() {
            place.parts.iter().for_each(|part| parents[*part].push(at));
        }
        let mut reached: Vec<bool> = missing.iter().map(|n| *n == 0).collect();
        let mut waiting: Vec<usize> = (0..reached.len()).filter(|at| reached[*at]).collect();
        while let Some(at) = waiting.pop() {
            for parent in std::mem::take(&mut parents[at]) {
                missing[parent] = missing[parent].saturating_sub(1);
                if missing[parent] == 0 && !reached[parent] {
                    reached[parent] = true;
                    waiting.push(parent);
                }
            }
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_wait_for_ever_and_hopeless_is_what_no_circle_helps() {
        let mut needs = Needs::default();
        let (yes, no) = (needs.fact(true), needs.fact(false));
        let circle = needs.any(vec![]);
        let around = needs.all(vec![circle, yes]);
        needs.also(circle, around);
        let both = needs.all(vec![around, no]);
        let either = needs.any(vec![around, no, both]);
        let saved = needs.any(vec![around, yes]);
        let twice = needs.all(vec![saved, saved]);
        let of = |all: Vec<bool>| {
            [yes, no, circle, around, both, either, saved, twice].map(|at| all[at])
        };
        assert_eq!(
            of(needs.met()),
            [true, false, false, false, false, false, true, true]
        );
        assert_eq!(
            of(needs.hopeless()),
            [false, true, false, false, true, false, false, false]
        );
    }
}
