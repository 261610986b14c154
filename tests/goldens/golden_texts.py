"""The texts of the SmolLM2 goldens: (name, kind, text). All written for this project; 40-120 tokens each."""

SCORED_TEXTS = [
    ("en_lighthouse", "english",
     "The lighthouse keeper climbed the stairs every evening before sunset. He cleaned the great lens, filled the lamp "
     "with oil, and wrote the weather in his book. On stormy nights he stayed awake until morning, because he knew "
     "that the ships could not see the rocks without his light."),
    ("en_bread", "english",
     "Bread is made from flour, water, salt and yeast. The yeast eats the sugar in the flour and produces carbon "
     "dioxide, which makes the dough rise. When the loaf goes into the hot oven, the gas expands, the water turns to "
     "steam, and the outside becomes a golden crust."),
    ("en_river", "english",
     "A river begins high in the mountains, where rain and melting snow collect in small streams. The streams join "
     "each other and grow. As the land becomes flat, the river slows down and drops the sand and mud that it has "
     "carried, and over thousands of years this builds a delta at the sea."),
    ("en_dialogue", "english",
     "\"Are you sure this is the right train?\" she asked.\n\n\"No,\" he said, \"but it is the only one that is still "
     "running tonight.\"\n\nShe looked at the clock above the platform, sighed, and picked up her suitcase. \"Then I "
     "suppose we had better get on.\""),
    ("en_library", "english",
     "The public library on Mill Street will be closed from Monday to Thursday next week while the heating is "
     "repaired. Books that are due during this time may be returned on Friday without a fine. We are sorry for any "
     "inconvenience and thank you for your patience."),
    ("en_immune", "english",
     "Vaccines train the immune system to recognize a virus or a bacterium without causing the disease. After the "
     "injection, the body produces antibodies and memory cells. If the real pathogen enters the body later, these "
     "cells respond quickly and destroy it before the person becomes seriously ill."),
    ("en_review", "english",
     "I bought this kettle three months ago and it has worked very well so far. It boils a litre of water in about two "
     "minutes, it is quiet, and the handle stays cool. The only thing I don't like is the lid, which is hard to open "
     "with wet hands. Overall I'd give it four stars out of five."),
    ("py_moving_average", "python",
     "def moving_average(values, window):\n    \"\"\"Return the mean of each run of `window` neighbours.\"\"\"\n"
     "    if window <= 0:\n        raise ValueError(\"window must be positive\")\n    result = []\n"
     "    for i in range(len(values) - window + 1):\n        result.append(sum(values[i:i + window]) / window)\n"
     "    return result\n"),
    ("py_class", "python",
     "class Stack:\n    def __init__(self):\n        self.items = []\n\n    def push(self, item):\n"
     "        self.items.append(item)\n\n    def pop(self):\n        return self.items.pop()\n\n"
     "    def is_empty(self):\n        return len(self.items) == 0\n"),
    ("py_file", "python",
     "import csv\n\nwith open(\"sales.csv\", newline=\"\") as f:\n    reader = csv.DictReader(f)\n    total = 0.0\n"
     "    for row in reader:\n        total += float(row[\"price\"]) * int(row[\"count\"])\n\n"
     "print(f\"Total: {total:.2f}\")\n"),
    ("c_reverse", "c",
     "#include <stdio.h>\n#include <string.h>\n\nvoid reverse(char *s) {\n    int i = 0;\n    int j = (int)strlen(s) - "
     "1;\n    while (i < j) {\n        char t = s[i];\n        s[i++] = s[j];\n        s[j--] = t;\n    }\n}\n"),
    ("c_list", "c",
     "struct node {\n    int value;\n    struct node *next;\n};\n\nint list_length(const struct node *head) {\n"
     "    int n = 0;\n    for (const struct node *p = head; p != NULL; p = p->next) {\n        n++;\n    }\n"
     "    return n;\n}\n"),
    ("js_fetch", "javascript",
     "async function loadUser(id) {\n  const response = await fetch(`/api/users/${id}`);\n  if (!response.ok) {\n"
     "    throw new Error(`HTTP error ${response.status}`);\n  }\n  const user = await response.json();\n"
     "  return user;\n}\n"),
    ("sql_query", "sql",
     "SELECT customers.name, COUNT(orders.id) AS order_count\nFROM customers\nJOIN orders ON orders.customer_id = "
     "customers.id\nWHERE orders.created_at >= '2021-01-01'\nGROUP BY customers.name\nORDER BY order_count DESC\n"
     "LIMIT 10;\n"),
    ("math_train", "maths",
     "Question: A train travels 180 kilometers in 3 hours. How far does it travel in 5 hours at the same speed?\n"
     "Answer: The speed of the train is 180 / 3 = 60 kilometers per hour. In 5 hours it travels 60 * 5 = 300 "
     "kilometers.\n"),
    ("math_quadratic", "maths",
     "To solve x^2 - 5x + 6 = 0, we look for two numbers whose product is 6 and whose sum is 5. These numbers are 2 "
     "and 3. Therefore x^2 - 5x + 6 = (x - 2)(x - 3), and the solutions are x = 2 and x = 3.\n"),
    ("math_latex", "maths",
     "The sum of the first $n$ positive integers is $\\frac{n(n+1)}{2}$. For example, for $n = 100$ the sum is "
     "$\\frac{100 \\cdot 101}{2} = 5050$. The proof is by induction on $n$."),
    ("list_numbers", "list",
     "1. Preheat the oven to 180 degrees.\n2. Mix the flour, the sugar and the eggs in a large bowl.\n3. Add the "
     "melted butter and stir until smooth.\n4. Pour the batter into a pan.\n5. Bake for 35 minutes and let it cool.\n"),
    ("list_markdown", "list",
     "# Packing list\n\n- Passport and tickets\n- Phone charger\n- Two pairs of shoes\n- Toothbrush and toothpaste\n"
     "- A warm jacket\n- Sunglasses\n\n## Before leaving\n\n- [ ] Turn off the heating\n- [x] Water the plants\n"),
    ("list_table", "list",
     "| Planet  | Moons | Radius (km) |\n|---------|-------|-------------|\n| Mercury | 0     | 2440        |\n"
     "| Venus   | 0     | 6052        |\n| Earth   | 1     | 6371        |\n"),
    ("chat_capital", "chat",
     "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
     "<|im_start|>user\nWhat is the capital of Portugal?<|im_end|>\n<|im_start|>assistant\n"
     "The capital of Portugal is Lisbon. It lies on the Atlantic coast.<|im_end|>\n"),
    ("chat_email", "chat",
     "<|im_start|>user\nWrite a short note that thanks Maria for her help.<|im_end|>\n<|im_start|>assistant\n"
     "Dear Maria,\n\nThank you so much for your help last week. I could not have finished the project without you.\n\n"
     "Best regards,\nTom<|im_end|>\n"),
    ("de_winter", "german",
     "Im Winter ist es in den Bergen sehr kalt. Die Kinder fahren mit dem Schlitten den Hügel hinunter, und am Abend "
     "trinken alle heiße Schokolade vor dem Kamin."),
    ("fr_marche", "french",
     "Le samedi matin, ma grand-mère va au marché pour acheter des légumes, du fromage et des fleurs. Elle connaît "
     "tous les marchands et parle longtemps avec eux."),
    ("es_playa", "spanish",
     "Durante el verano vamos a la playa con nuestros amigos. El agua está fría por la mañana, pero por la tarde "
     "podemos nadar y comer pescado en un pequeño restaurante."),
    ("json_config", "json",
     "{\n  \"name\": \"weather-station\",\n  \"version\": \"1.4.2\",\n  \"sensors\": [\n    {\"id\": 1, \"type\": "
     "\"temperature\", \"unit\": \"C\"},\n    {\"id\": 2, \"type\": \"humidity\", \"unit\": \"%\"}\n  ],\n"
     "  \"enabled\": true\n}\n"),
    ("html_page", "html",
     "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n  <meta charset=\"utf-8\">\n  <title>My garden</title>\n</head>\n"
     "<body>\n  <h1>My garden</h1>\n  <p>Tomatoes need a lot of sun.</p>\n</body>\n</html>\n"),
    ("unicode_mix", "unicode",
     "The café's menu: crème brûlée €6.50, jalapeño poppers £4 – “fresh”! 😀 Ελλάδα, Москва, 東京. ½ + ¼ = ¾, and x² ≥ "
     "0."),
]

GREEDY_PROMPTS = [
    ("story", "Once upon a time, in a small village by the sea, there lived"),
    ("code", "def is_prime(n):\n    \"\"\"Return True if n is a prime number.\"\"\"\n"),
    ("chat", "<|im_start|>user\nExplain why the sky is blue.<|im_end|>\n<|im_start|>assistant\n"),
    ("facts", "The three states of matter are solid, liquid and gas. In a solid,"),
]
