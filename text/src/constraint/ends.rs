//! Whether every part of a grammar has a text that ends.
//!
//! What has none would still be begun: nothing may follow where it comes to what is impossible, and what leads back to
//! itself goes on until the tokens are used up.

use super::needs::Needs;
use super::rules::Rules;
use super::schema;
use super::vocabulary::Vocabulary;
use crate::error::{quote, Error, Result};
use llguidance::api::TopLevelGrammar;
use llguidance::earley::lexerspec::LexemeSpec;
use llguidance::earley::regexvec::LexemeSet;
use llguidance::earley::{CGrammar, CSymIdx, Parser};
use serde_json::Value;
use std::collections::HashMap;

/// An error that names a part which has none.
pub fn check(parser: &mut Parser, vocabulary: &Vocabulary, rules: &Rules) -> Result<()> {
    let words = words(parser, vocabulary);
    let grammar = parser.grammar();
    let symbols = Symbols::of(grammar, &words);
    let traps = symbols.traps();
    if traps.is_empty() {
        return Ok(());
    }
    let is_whole = !symbols.is_met(grammar.start());
    // A rule says more than what it is made of.
    let rule = traps.iter().find_map(|symbol| {
        let name = grammar.sym_name(*symbol);
        Some(name).filter(|name| is_rule(name) && rules.text().contains(name))
    });
    Err(Error::argument(match (rules.schema(), rule) {
        (Some(schema), _) => schema::unwritable(&schema, |leaf| can_be_written(leaf, vocabulary))
            .unwrap_or_else(|| "a part of it has no value that can be written".into()),
        (None, Some(rule)) => format!("no text of {} has an end", quote(rule)),
        (None, None) if is_whole => "no text of it has an end".into(),
        (None, None) => "a part of it has no text that can be written".into(),
    }))
}

/// Whether the schema of a text or number alone has a value.
fn can_be_written(leaf: Value, vocabulary: &Vocabulary) -> bool {
    let Ok((leaf, _)) = schema::ready(&leaf) else {
        return true;
    };
    let grammar = TopLevelGrammar::from_json_schema(leaf);
    let Ok(mut alone) = vocabulary.factory.create_parser(grammar) else {
        return true;
    };
    let words = words(&mut alone.parser, vocabulary);
    let grammar = alone.parser.grammar();
    Symbols::of(grammar, &words).is_met(grammar.start())
}

fn is_rule(name: &str) -> bool {
    name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// The words of the grammar that can be written.
fn words(parser: &mut Parser, vocabulary: &Vocabulary) -> LexemeSet {
    let spec = parser.grammar().lexer_spec();
    let all = spec.lexeme_set(|_| true);
    let mut written = parser.with_recognizer(|recognizer| {
        let lexer = recognizer.lexer_mut();
        let state = lexer.start_state(&all);
        lexer.possible_lexemes(state).clone()
    });
    let spec = parser.grammar().lexer_spec();
    if spec.special_token_rx.is_none() {
        return written;
    }
    // Those that name tokens.
    for at in all.iter() {
        let mut one = spec.alloc_lexeme_set();
        one.add(at);
        let named = spec.token_range_lexemes(&one);
        let is_written = |named: &&LexemeSpec| {
            vocabulary
                .written()
                .iter()
                .any(|token| named.contains_token(token))
        };
        if !named.iter().all(is_written) {
            written.remove(at);
        }
    }
    written
}

/// The symbols of a grammar that can be reached.
struct Symbols<'a> {
    grammar: &'a CGrammar,
    order: Vec<CSymIdx>,
    /// Where each stands in that order.
    numbers: HashMap<CSymIdx, usize>,
    /// Which have a text.
    met: Vec<bool>,
    words: &'a LexemeSet,
}

impl<'a> Symbols<'a> {
    fn of(grammar: &'a CGrammar, words: &'a LexemeSet) -> Symbols<'a> {
        let mut needs = Needs::default();
        let start = grammar.start();
        let mut order = vec![start];
        let mut places = HashMap::from([(start, needs.any(Vec::new()))]);
        let mut next = 0;
        while let Some(symbol) = order.get(next).copied() {
            next += 1;
            let place = places[&symbol];
            let data = grammar.sym_data(symbol);
            let is_word = data.lexeme.is_some_and(|word| words.contains(word));
            if is_word || data.is_nullable || !data.cond_nullable.is_empty() {
                let fact = needs.fact(true);
                needs.also(place, fact);
            }
            for rule in &data.rules {
                let mut parts = Vec::new();
                for part in grammar.rule_rhs(*rule).0 {
                    parts.push(*places.entry(*part).or_insert_with(|| {
                        order.push(*part);
                        needs.any(Vec::new())
                    }));
                }
                let rule = needs.all(parts);
                needs.also(place, rule);
            }
        }
        let met = needs.met();
        Symbols {
            grammar,
            numbers: order
                .iter()
                .enumerate()
                .map(|(at, symbol)| (*symbol, at))
                .collect(),
            met: order.iter().map(|symbol| met[places[symbol]]).collect(),
            order,
            words,
        }
    }

    fn is_met(&self, symbol: CSymIdx) -> bool {
        self.met[self.at(symbol)]
    }

    /// The parts of each rule that a text may come to: those up to the first one without a text.
    fn come_to(&self, symbol: CSymIdx) -> impl Iterator<Item = &[CSymIdx]> {
        self.grammar.rules_of(symbol).iter().map(|rule| {
            let parts = self.grammar.rule_rhs(*rule).0;
            let first = parts.iter().position(|part| !self.is_met(*part));
            &parts[..first.map_or(parts.len(), |at| at + 1)]
        })
    }

    /// Which may begin with a byte, whether or not they end.
    fn begun(&self) -> Vec<bool> {
        let mut needs = Needs::default();
        self.order.iter().for_each(|_| {
            needs.any(Vec::new());
        });
        for symbol in &self.order {
            let word = self.grammar.sym_data(*symbol).lexeme;
            if word.is_some_and(|word| self.words.contains(word)) {
                let fact = needs.fact(true);
                needs.also(self.at(*symbol), fact);
            }
            for part in self.come_to(*symbol).flatten() {
                needs.also(self.at(*symbol), self.at(*part));
            }
        }
        needs.met()
    }

    /// Parts without a text that a text may come to. Where one cannot be begun, nor anything before it in its rule, the
    /// rule is none.
    fn traps(&self) -> Vec<CSymIdx> {
        let begun = self.begun();
        let (mut traps, mut seen) = (Vec::new(), vec![false; self.order.len()]);
        let mut waiting = vec![self.grammar.start()];
        while let Some(symbol) = waiting.pop() {
            if std::mem::replace(&mut seen[self.at(symbol)], true) {
                continue;
            }
            for parts in self.come_to(symbol) {
                let last = parts.last().filter(|last| !self.is_met(**last));
                if last.is_some() && !parts.iter().any(|part| begun[self.at(*part)]) {
                    continue;
                }
                traps.extend(last);
                waiting.extend(parts);
            }
        }
        traps
    }

    fn at(&self, symbol: CSymIdx) -> usize {
        self.numbers[&symbol]
    }
}
