// Files of all kinds for the tests of attachments, made here so that none lies in the repository.
import { deflateRawSync } from 'node:zlib';
import { crc32 } from './crc32.mjs';

/** A ZIP archive; files: [name, text or bytes, {store}]. Those of megabytes carry no true checksum: nobody gets to their end. */
export function zip(files) {
  const parts = [], directory = [];
  let at = 0;
  for (const [name, content, { store = false } = {}] of files) {
    const data = Buffer.from(content), packed = store ? data : deflateRawSync(data), path = Buffer.from(name);
    const head = Buffer.alloc(30), entry = Buffer.alloc(46);
    head.writeUInt32LE(0x04034b50, 0);
    entry.writeUInt32LE(0x02014b50, 0);
    for (const [b, from] of [[head, 4], [entry, 6]]) {
      b.writeUInt16LE(20, from);
      b.writeUInt16LE(store ? 0 : 8, from + 4);
      b.writeUInt32LE(data.length < 1 << 20 ? crc32(data) : 0, from + 10);
      b.writeUInt32LE(packed.length, from + 14);
      b.writeUInt32LE(data.length, from + 18);
      b.writeUInt16LE(path.length, from + 22);
    }
    entry.writeUInt32LE(at, 42);
    parts.push(head, path, packed);
    directory.push(entry, path);
    at += head.length + path.length + packed.length;
  }
  const list = Buffer.concat(directory), end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(files.length, 8);
  end.writeUInt16LE(files.length, 10);
  end.writeUInt32LE(list.length, 12);
  end.writeUInt32LE(at, 16);
  return Buffer.concat([...parts, list, end]);
}

/** A Word document with these paragraphs; or with this XML, when it is a text. */
export function docx(body) {
  const xml = typeof body === 'string' ? body : '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>'
    + body.map((p) => `<w:p><w:r><w:t>${p}</w:t></w:r></w:p>`).join('') + '</w:body></w:document>';
  return zip([['[Content_Types].xml', '<Types/>'], ['_rels/.rels', '<R/>'], ['word/document.xml', xml]]);
}

export function odt(paragraphs) {
  return zip([['mimetype', 'application/vnd.oasis.opendocument.text', { store: true }],
    ['content.xml', '<o:document-content xmlns:o="urn:oasis:names:tc:opendocument:xmlns:office:1.0" xmlns:t="urn:oasis:names:tc:opendocument:xmlns:text:1.0">'
      + `<o:body><o:text>${paragraphs.map((p) => `<t:p>${p}</t:p>`).join('')}</o:text></o:body></o:document-content>`]]);
}

/** A PDF of these objects, the first the catalogue; extra goes into the trailer. */
export function pdfOf(objects, extra = '') {
  let out = '%PDF-1.4\n';
  const offsets = objects.map((o, i) => {
    const at = out.length;
    out += `${i + 1} 0 obj\n${o}\nendobj\n`;
    return at;
  });
  const xref = out.length;
  out += `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${offsets.map((o) => `${String(o).padStart(10, '0')} 00000 n \n`).join('')}`;
  return Buffer.from(`${out}trailer<</Size ${objects.length + 1}/Root 1 0 R${extra}>>\nstartxref\n${xref}\n%%EOF\n`, 'latin1');
}

const stream = (text) => `<</Length ${text.length}>>stream\n${text}\nendstream`;

/** One page for each text. count: what the file says of their number. */
export function pdf(texts, { count = texts.length } = {}) {
  const kids = texts.map((_, i) => `${4 + 2 * i} 0 R`).join(' ');
  return pdfOf(['<</Type/Catalog/Pages 2 0 R>>', `<</Type/Pages/Count ${count}/Kids[${kids}]>>`,
    '<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>',
    ...texts.flatMap((t, i) => [`<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 3 0 R>>>>/Contents ${5 + 2 * i} 0 R>>`,
      stream(`BT /F1 24 Tf 72 720 Td (${t}) Tj ET`)])]);
}

/** PDFs that lead in circles or say what is not so. */
export const hostilePdfs = {
  'a page tree in a circle': pdfOf(['<</Type/Catalog/Pages 2 0 R>>', '<</Type/Pages/Count 100/Kids[2 0 R 2 0 R 2 0 R]>>']),
  'a form that paints itself': pdfOf(['<</Type/Catalog/Pages 2 0 R>>', '<</Type/Pages/Count 1/Kids[3 0 R]>>',
    '<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Resources<</XObject<</X 4 0 R>>>>/Contents 5 0 R>>',
    '<</Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</X 4 0 R>>>>/Length 11>>stream\n/X Do /X Do\nendstream', stream('/X Do')]),
  'a table of objects before itself': pdfOf(['<</Type/Catalog/Pages 2 0 R>>', '<</Type/Pages/Count 0/Kids[]>>'], '/Prev 0/XRefStm 9'),
  'a thousand million pages': pdf([], { count: 1000000000 }),
  'nothing but its first line': Buffer.from('%PDF-1.7\n'),
};

export const png = Buffer.from('89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63f8cfc0f01f00050001ff89993d1d0000000049454e44ae426082', 'hex');
