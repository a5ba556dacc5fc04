// `constants`.

import { constants } from "tiller:files";

export default constants;
