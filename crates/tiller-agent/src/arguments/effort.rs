//! Limits the cost of a check. Schemas come from clients, extensions and the servers behind them,
//! and arguments from a model; neither may overflow the stack or keep the thread busy.

/// A step is a value visited, a reference followed, or some tens of bytes copied or compared: a
/// million of them take less than a tenth of a second.
pub(super) const STEPS_MAX: usize = 1_000_000;
/// How deeply schemas may be nested during a check. Each level takes stack.
pub(super) const DEPTH_MAX: usize = 256;

#[derive(Debug)]
pub(super) struct Effort {
    steps: usize,
    depth: usize,
}

/// Which limit was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exceeded {
    Steps,
    Depth,
}

impl Exceeded {
    pub(super) fn reason(self) -> String {
        match self {
            Exceeded::Steps => {
                "the schema is too complex: checking arguments against it takes too long".to_owned()
            }
            Exceeded::Depth => {
                format!("the schema or the arguments are nested more than {DEPTH_MAX} levels deep")
            }
        }
    }
}

impl Effort {
    pub(super) fn new() -> Effort {
        Effort { steps: 0, depth: 0 }
    }

    /// Call it before the work is done.
    pub(super) fn spend(&mut self, steps: usize) -> Result<(), Exceeded> {
        let left = STEPS_MAX - self.steps;
        if steps > left {
            return Err(Exceeded::Steps);
        }
        self.steps += steps;
        Ok(())
    }

    /// For bytes that are copied or compared.
    pub(super) fn spend_bytes(&mut self, bytes: usize) -> Result<(), Exceeded> {
        self.spend(1 + bytes / 16)
    }

    pub(super) fn descend(&mut self) -> Result<(), Exceeded> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(Exceeded::Depth) } else { Ok(()) }
    }

    pub(super) fn ascend(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    #[cfg(test)]
    pub(super) fn steps(&self) -> usize {
        self.steps
    }
}
