//! What makes a task, however its results are got: the texts that it is given and the options that it
//! takes.

use super::piece::Field;

/// A text of an item.
#[derive(Debug)]
pub struct ItemText {
    pub name: &'static str,
    /// Which field of a prompt it is.
    pub field: Field,
}

/// A task by its name, and what options and recipes of it may say.
#[derive(Debug)]
pub struct Kind {
    pub name: &'static str,
    /// One or two.
    pub texts: &'static [ItemText],
    /// Whether all items have labels.
    pub has_labels: bool,
    /// Whether models are made for it, each with words of its own: those of the default are a guess.
    pub has_own_models: bool,
    /// Whether a recipe may have several prompts, of which option prompt chooses one.
    pub many_prompts: bool,
    /// Options besides those of every task.
    pub options: &'static [&'static str],
    /// Whether values have an order, from best to worst.
    pub has_order: bool,
}

impl Kind {
    pub fn text_names(&self) -> String {
        let names: Vec<&str> = self.texts.iter().map(|text| text.name).collect();
        names.join(", ")
    }

    /// The texts that its prompts are made of.
    pub fn fields(&self) -> Vec<(&'static str, Field)> {
        let mut fields: Vec<_> = self.texts.iter().map(|t| (t.name, t.field)).collect();
        if self.has_labels {
            fields.push(("labels", Field::Labels));
        }
        fields.push(("instruction", Field::Instruction));
        fields
    }
}
