// `util/types`.

import { types } from "node:util";

export default types;
