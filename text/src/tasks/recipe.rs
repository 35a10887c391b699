//! Recipes: how a task becomes prompts, as data. recipe_file.rs reads them.

use super::head::{self, Activation, Label};
use super::kind::Kind;
use super::model::{Line, Model};
use super::piece::{Field, Part, Piece};
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;

/// Where the model's own tokens around a text go (begin of text and the like).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    None,
    Front,
    Both,
}

#[derive(Clone, Debug)]
pub enum Prompt {
    Pieces(Vec<Piece>),
    /// Through the chat template of the model: messages whose contents have fields.
    Messages {
        messages: Vec<Map<String, Value>>,
        variables: Map<String, Value>,
    },
    /// An item brings its own messages.
    Own {
        variables: Map<String, Value>,
    },
}

#[derive(Clone, Debug)]
pub struct Recipe {
    pub name: String,
    pub task: &'static Kind,
    /// How its results are got (registry.rs).
    pub method: String,
    /// By name; "default" where a task has only one.
    pub prompts: BTreeMap<String, Prompt>,
    /// Those are of the model's files (of_model).
    pub has_prompts_of_model: bool,
    /// How the hidden states of a text become a vector; "" = as the engine does, "model" = as the
    /// model's files say.
    pub pooling: String,
    pub target: Piece,
    pub instruction: String,
    pub yes: String,
    /// None: the score is of the other word alone.
    pub no: Option<String>,
    /// What is divided by before it becomes a probability.
    pub scale: f64,
    pub special: Special,
    /// Special tokens that a caller's text spells are the tokens.
    pub markup: bool,
    /// What is cut when a prompt is too long.
    pub cut: Option<Field>,
    pub max_prompt_tokens: usize,
    /// An answer ends before this text; "" = never.
    pub stop: String,
    /// White space around a text stays.
    pub keep_space: bool,
    pub request: Map<String, Value>,
    /// Models whose files have all of one of these call for the recipe.
    pub lines: Vec<Line>,
    /// Tokens without which the words would be others.
    pub needs: Vec<String>,
    /// Only for models whose tokens see those behind them.
    pub needs_bidirectional: bool,
    /// Which output of a classification head is the score, by its label or its number.
    pub label: Label,
    pub activation: Activation,
    /// How several documents stand in one prompt; None: each has its own.
    pub list: Option<ListPrompt>,
}

/// A prompt with all documents of a query, of which each is read at a token of its own.
///
/// ```text
///   head   document 0 <d>   document 1 <d>   ...   tail <q>
/// ```
#[derive(Clone, Debug)]
pub struct ListPrompt {
    pub head: Vec<Piece>,
    pub document: Vec<Piece>,
    pub tail: Vec<Piece>,
    /// The tokens where documents and the query are read, <d> and <q>.
    pub read_document: String,
    pub read_query: String,
    /// Most documents of a prompt; more of them take several prompts.
    pub max_documents: usize,
    /// Most tokens of a document and of a query; the rest is cut.
    pub max_document_tokens: usize,
    pub max_query_tokens: usize,
}

/// What a recipe leaves to the model's files.
pub(super) const OF_MODEL: &str = "model";

impl Recipe {
    /// Whether `{instruction}` stands in one of its prompts.
    pub fn takes_instruction(&self) -> bool {
        let has = |pieces: &[Piece]| {
            let is_it = |part: &Part| matches!(part, Part::Field(Field::Instruction));
            pieces.iter().flatten().any(is_it)
        };
        let in_prompt = |prompt: &Prompt| match prompt {
            Prompt::Pieces(pieces) => has(pieces),
            Prompt::Messages { messages, .. } => {
                json!(messages).to_string().contains("{instruction}")
            }
            Prompt::Own { .. } => false,
        };
        let in_list = |list: &ListPrompt| has(&list.head) || has(&list.document) || has(&list.tail);
        self.prompts.values().any(in_prompt)
            || has(std::slice::from_ref(&self.target))
            || self.list.as_ref().is_some_and(in_list)
    }

    /// With what it leaves to the model's files.
    pub fn of_model(mut self, model: &Model) -> Recipe {
        if self.pooling == OF_MODEL {
            self.pooling = match model.pooling.as_str() {
                "rank" => String::new(), // a head at the last token, where the engine reads it
                pooling => pooling.to_string(),
            };
        }
        if self.activation == Activation::OfModel {
            // Method::fit has seen what the files say.
            self.activation = head::activation_of(model).unwrap_or(Activation::Softmax);
        }
        if self.has_prompts_of_model {
            let before = |names: &[&str]| {
                let named = names.iter().find_map(|name| model.prompts.get(*name));
                named.or_else(|| model.prompts.get(&model.default_prompt))
            };
            let mut prompts = model.prompts.clone();
            for (name, names) in [
                ("document", &["document", "passage", "corpus"][..]),
                ("query", &["query"]),
            ] {
                prompts.insert(name.into(), before(names).cloned().unwrap_or_default());
            }
            let pieces = prompts.into_iter().map(|(name, text)| {
                let mut piece = vec![Part::Field(Field::Text)];
                if !text.is_empty() {
                    piece.insert(0, Part::Fixed(text));
                }
                (name, Prompt::Pieces(vec![piece]))
            });
            self.prompts = pieces.collect();
        }
        self
    }
}
