// Opens files with Netron's parser of the format, without a browser.
//
//     node netron_worker.mjs FOLDER_OF_NETRON LIST
//
// LIST is a file with a path a line. For each, a line of JSON: {file, nodes: types of the nodes, error}.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, list] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(`${folder}/${name}.js`));
const { BinaryReader } = await load("flatbuffers");
const { ModelFactory } = await load("mnn");

// What Netron's window gives its parsers.
class Context {
    constructor(bytes) {
        this.bytes = bytes;
    }
    async peek(kind) {
        return kind === "flatbuffers.binary" ? BinaryReader.open(this.bytes) : null;
    }
    set(type, value) {
        this.type = type;
        this.value = value;
        return type;
    }
    async require(id) {
        return load(id.replace("./", ""));
    }
    async metadata(name) {
        const types = new Map(JSON.parse(readFileSync(`${folder}/${name}`, "utf8")).map((t) => [t.name, t]));
        return { type: (name) => types.get(name) ?? { name: String(name) }, attribute: () => null };
    }
}

for (const file of readFileSync(list, "utf8").split("\n").filter(Boolean)) {
    const said = { file, nodes: [], error: "" };
    try {
        const context = new Context(new Uint8Array(readFileSync(file)));
        const factory = new ModelFactory();
        if (!(await factory.match(context))) {
            throw new Error("not recognized");
        }
        const model = await factory.open(context);
        for (const graph of model.modules) {
            said.nodes.push(...graph.nodes.map((node) => node.type.name));
            said.inputs = graph.inputs.length;
            said.outputs = graph.outputs.length;
        }
    } catch (error) {
        said.error = error.message;
    }
    console.log(JSON.stringify(said));
}
