// A tool of its own: how many words a text has.
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import { Type } from "typebox";

export default function (pi: ExtensionAPI) {
  pi.registerTool({
    name: "word_count",
    label: "Word count",
    description: "Count the words of a text.",
    parameters: Type.Object({ text: Type.String({ description: "The text" }) }),
    async execute(_id, params) {
      const words = params.text.split(/\s+/).filter((word: string) => word.length > 0).length;
      return { content: [{ type: "text", text: `${words} words` }], details: { words } };
    },
  });
}
